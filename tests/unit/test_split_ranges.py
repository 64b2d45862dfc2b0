"""Ranges of a dimension along those that it is split into, beside numpy."""

import itertools
import math

import numpy as np
import pytest

from mlirfuse.structured.ir import ops


@pytest.mark.parametrize("sizes", [(6,), (2, 6), (3, 2, 2), (1, 4, 1), (2, 1, 3), (4, 3, 1)])
def test_split_ranges_are_the_boxes_with_the_same_elements(sizes):
    places = np.arange(math.prod(sizes)).reshape(sizes)
    ranges = [[(a, n) for a in range(size) for n in range(1, size - a + 1)] for size in sizes]
    boxes = {}
    for box in itertools.product(*ranges):
        taken = places[tuple(slice(a, a + n) for a, n in box)].ravel()
        if np.array_equal(taken, np.arange(taken[0], taken[0] + len(taken))):
            boxes[taken[0], len(taken)] = box
    for start in range(places.size):
        for size in range(1, places.size - start + 1):
            assert ops.split_range(start, size, sizes) == boxes.get((start, size))


def test_dimensions_without_elements_have_no_ranges():
    assert ops.split_range(0, 0, (2, 0)) is None
