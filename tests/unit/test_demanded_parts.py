"""The indices of a dimension that is split into several, and of several that are merged."""

import itertools
import math

from hypothesis import given
from hypothesis import strategies as st

from mlirfuse.structured.recognize.demanded_parts import (
    Progression,
    merged_indices,
    split_indices,
)

shapes = st.lists(st.integers(1, 6), min_size=1, max_size=3)


def indices(one):
    return [one.offset + n * one.step for n in range(one.size)]


def flat(dims, sizes):
    """The flat index of each combination, in order."""
    found = []
    for at in itertools.product(*map(indices, dims)):
        number = 0
        for index, size in zip(at, sizes, strict=True):
            number = number * size + index
        found.append(number)
    return found


@st.composite
def progressions(draw, length):
    offset, step = draw(st.integers(0, length - 1)), draw(st.integers(1, length))
    return Progression(offset, draw(st.integers(1, (length - 1 - offset) // step + 1)), step)


@given(st.data(), shapes)
def test_merged_indices_are_those_of_the_dimensions(data, sizes):
    dims = [data.draw(progressions(size)) for size in sizes]
    found, expected = merged_indices(dims, sizes), flat(dims, sizes)
    if found is None:
        assert len({b - a for a, b in itertools.pairwise(expected)}) > 1
    else:
        assert indices(found) == expected


@given(st.data(), shapes)
def test_split_indices_are_those_of_the_dimension(data, sizes):
    one = data.draw(progressions(math.prod(sizes)))
    found = split_indices(one, sizes)
    if found is not None:
        assert flat(found, sizes) == indices(one)


@given(st.data(), shapes)
def test_what_is_merged_is_split_again(data, sizes):
    """As the rows of the first tokens of all samples."""
    dims = [data.draw(progressions(size)) for size in sizes]
    one = merged_indices(dims, sizes)
    if one is not None:
        found = split_indices(one, sizes)
        assert found is None or flat(found, sizes) == flat(dims, sizes)


def test_the_first_tokens_of_samples():
    tokens = [Progression(0, 4, 1), Progression(5, 1, 1)]
    assert merged_indices(tokens, [4, 32]) == Progression(5, 4, 32)
    assert split_indices(Progression(5, 4, 32), [4, 32]) == tokens
    assert merged_indices([Progression(0, 4, 1), Progression(5, 2, 1)], [4, 32]) is None
