"""A slice whose dimensions are merged is one of the merged tensor, or has no common stride."""

import itertools

import numpy as np
import pytest
from iree.compiler import ir

from mlirfuse.builders import slice_builder
from mlirfuse.structured.ir import ops

TEXT = """
func.func @main(%x: tensor<{whole}xf32>) -> tensor<{sizes}xf32> {{
  %y = tensor.extract_slice %x{offsets} {shape} {strides}
      : tensor<{whole}xf32> to tensor<{sizes}xf32>
  return %y : tensor<{sizes}xf32>
}}
"""
CASES = {
    "rows": ((7, 72, 5), (0, 0, 0), (7, 24, 5), (1, 3, 1), [[0, 1], [2]], True),
    "rows_behind_an_offset": ((7, 72, 5), (0, 2, 1), (7, 24, 3), (1, 3, 1), [[0, 1], [2]], True),
    "one_block": ((7, 72, 5), (3, 2, 0), (1, 24, 5), (1, 3, 1), [[0, 1], [2]], True),
    "every_second_block": ((8, 6, 5), (1, 0, 0), (4, 6, 5), (2, 1, 1), [[0, 1], [2]], False),
    "some_rows": ((7, 72, 5), (0, 0, 0), (7, 23, 5), (1, 3, 1), [[0, 1], [2]], False),
    "columns": ((4, 6, 8), (0, 0, 1), (4, 6, 4), (1, 1, 2), [[0], [1, 2]], True),
    "some_columns": ((4, 6, 8), (0, 0, 1), (4, 6, 5), (1, 1, 1), [[0], [1, 2]], False),
    "a_column": ((4, 6, 8), (0, 0, 3), (4, 6, 1), (1, 1, 1), [[0, 1, 2]], True),
}


def joined(numbers):
    return "x".join(map(str, numbers))


@pytest.mark.parametrize("name", CASES)
def test_the_elements_are_the_same(name):
    whole, offsets, sizes, strides, groups, merges = CASES[name]
    text = TEXT.format(
        whole=joined(whole),
        sizes=joined(sizes),
        offsets=list(offsets),
        shape=list(sizes),
        strides=list(strides),
    )
    with ir.Context() as context, ir.Location.unknown():
        context.allow_unregistered_dialects = True
        module = ir.Module.parse(text)
        function = module.body.operations[0].operation
        cut, last = (view.operation for view in function.regions[0].blocks[0].operations)
        with ir.InsertionPoint(last):
            found = slice_builder.merged(cut.results[0], groups)
        assert (found is not None) == merges
        if found is None:
            return
        boxes = ops.slice_params(ops.defining_op(found)).boxes
        assert module.operation.verify()
    x = np.arange(np.prod(whole)).reshape(whole)
    cuts = zip(offsets, sizes, strides, strict=True)
    expected = x[tuple(slice(o, o + n * s, s) for o, n, s in cuts)]
    ends = itertools.pairwise([0, *itertools.accumulate(map(len, groups))])
    merged = x.reshape([np.prod(whole[a:b]) for a, b in ends])
    cuts = tuple(slice(o, o + n * s, s) for o, n, s in boxes)
    np.testing.assert_array_equal(merged[cuts], expected.reshape(merged[cuts].shape))
