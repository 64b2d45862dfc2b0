"""Slices of buffers that are less aligned than whole ones."""

import dataclasses
import re

import pytest
from iree.compiler import ir

from helpers.kernel_runner import TARGET, needs_triton
from mlirfuse.core import NoMatch
from mlirfuse.kernels import alignment, triton_compiler
from mlirfuse.kernels.data_movement.analysis import analyze_chain, chain
from mlirfuse.kernels.data_movement.family import plan_concat
from mlirfuse.structured.ir import ops

VALUES = """
!x = tensor<7xf32>
!v = tensor<4xf32>
!h = tensor<4x6xf16>
!h1 = tensor<1x4xf16>
!h2 = tensor<2x6xf16>
!h3 = tensor<3x6xf16>
!d = tensor<?x6xf16>
util.func private @callee(%p: !v) -> !v {
  util.return %p : !v
}
util.func public @main(%x: !x, %h: !h, %d: !d, %n: index, %c: i1) {
  %whole = util.optimization_barrier {whole = 16} %x : !x
  %s = tensor.extract_slice %x[3] [4] [1] {slice = 4} : !x to !v
  %a = tensor.extract_slice %x[4] [3] [1] {aligned = 16} : !x to tensor<3xf32>
  %e = tensor.expand_shape %s [[0, 1]] output_shape [2, 2] {expanded = 4}
      : !v into tensor<2x2xf32>
  %r = tensor.extract_slice %h[1, 0] [3, 6] [1, 1] {rows = 4} : !h to !h3
  %rr = tensor.extract_slice %r[1, 0] [2, 6] [1, 1] {of_a_slice = 4} : !h3 to !h2
  %k = tensor.extract_slice %h[%n, 2] [1, 4] [1, 1] {dynamic = 4} : !h to !h1
  %u = tensor.extract_slice %d[2, 0] [2, 6] [1, 1] {of_dynamic = 8} : !d to !h2
  %called = util.call @callee(%s) : (!v) -> !v
  %zero = arith.constant 0 : index
  %t = tensor.extract_slice %x[0] [4] [1] {start = 16} : !x to !v
  %either = scf.if %c -> !v {
    scf.yield %t : !v
  } else {
    scf.yield %s : !v
  } {either = 4}
  %loop = scf.for %i = %zero to %n step %n iter_args(%v = %s) -> !v {
    %w = util.optimization_barrier {carried = 4} %v : !v
    scf.yield %t : !v
  } {loop = 4}
  %while = scf.while (%v = %t) : (!v) -> !v {
    scf.condition(%c) %v : !v
  } do {
  ^bb0(%v: !v):
    %w = util.optimization_barrier {repeated = 4} %v : !v
    scf.yield %s : !v
  } attributes {while = 4}
  util.return
}
"""

NAMES = {
    *("whole", "slice", "aligned", "expanded", "rows", "of_a_slice", "dynamic", "of_dynamic"),
    *("start", "either", "carried", "loop", "repeated", "while"),
}
"""Attributes that hold the expected alignment."""


def test_buffers_of_operands():
    found, expected = {}, {}
    with ir.Context():
        module = ir.Module.parse(VALUES)
        for op in ops.nested_ops(module.operation):
            for name in NAMES & set(op.attributes):
                expected[name] = op.attributes[name].value
                found[name] = alignment.of_operand(op.results[0])
            if op.name == "util.return" and len(op.operands):
                assert alignment.of_operand(op.operands[0]) == 4
    assert found == expected
    assert set(found) == NAMES


RESULTS = """
util.func public @main(%x: tensor<4xf32>, %b: tensor<9xf32>) -> (tensor<9xf32>, tensor<9xf32>) {
  %y = util.unfoldable_constant dense<1.0> : tensor<4xf32>
  %r = tensor.expand_shape %y [[0, 1]] output_shape [2, 2] : tensor<4xf32> into tensor<2x2xf32>
  %v = tensor.collapse_shape %r [[0, 1]] : tensor<2x2xf32> into tensor<4xf32>
  %i = tensor.insert_slice %v into %b[OFFSET] [4] [1] : tensor<4xf32> into tensor<9xf32>
  util.return %i, %b : tensor<9xf32>, tensor<9xf32>
}
"""


@pytest.mark.parametrize(("offset", "expected"), [(0, 16), (4, 16), (2, 8), (3, 4)])
def test_buffers_of_results_that_are_written_in_place(offset, expected):
    with ir.Context():
        module = ir.Module.parse(RESULTS.replace("OFFSET", str(offset)))
        value = next(
            op.results[0]
            for op in ops.nested_ops(module.operation)
            if op.name == "util.unfoldable_constant"
        )
        assert alignment.of_result(value) == expected


DELETED = """
util.func public @main(%x: tensor<7xf32>) -> tensor<6xf32> {
  %a = tensor.extract_slice %x[0] [2] [1] : tensor<7xf32> to tensor<2xf32>
  %b = tensor.extract_slice %x[OFFSET] [4] [1] : tensor<7xf32> to tensor<4xf32>
  %empty = tensor.empty() : tensor<6xf32>
  %first = tensor.insert_slice %a into %empty[0] [2] [1] : tensor<2xf32> into tensor<6xf32>
  %both = tensor.insert_slice %b into %first[2] [4] [1] : tensor<4xf32> into tensor<6xf32>
  util.return %both : tensor<6xf32>
}
"""


def concatenation(text):
    """The plan of the concatenation, told about its buffers, and its value."""
    module = ir.Module.parse(text)
    root = [o for o in ops.nested_ops(module.operation) if o.name == "tensor.insert_slice"][-1]
    plan = plan_concat(analyze_chain(chain(root)), TARGET)
    return module, plan, list(root.results)


@needs_triton
def test_loads_of_a_slice_are_not_vectorized():
    with ir.Context():
        _module, plan, results = concatenation(DELETED.replace("OFFSET", "3"))
        told = alignment.with_alignments(plan, results)
        assert plan.program.alignments == ()
        assert told.program.alignments == (16, 4, 16)
        wide, narrow = (
            triton_compiler.build(p.program, "sm_90").code.decode() for p in (plan, told)
        )
    assert len(re.findall(r"ld\.global\.v\d", wide)) > len(re.findall(r"ld\.global\.v\d", narrow))


def test_kernels_in_gluon_refuse_a_slice():
    with ir.Context():
        _module, plan, results = concatenation(DELETED.replace("OFFSET", "3"))
        program = dataclasses.replace(plan.program, source="@gluon.jit\ndef f(): pass")
        refused = alignment.with_alignments(dataclasses.replace(plan, program=program), results)
        assert isinstance(refused, NoMatch)
        assert refused.detail == "a buffer that is aligned to 4 bytes"
