"""Matmuls of few rows: intra-CTA split-K, and GEMV without tensor cores."""

import dataclasses

import numpy as np
import pytest
from iree.compiler import ir

from helpers import kernel_runner
from helpers.kernel_runner import close, draw, needs_triton, run
from helpers.matmul_text import (
    INT8_MATMUL,
    check_several_matmuls,
    matmul_text,
    several_matmuls_text,
)
from mlirfuse import targets
from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.matmul import selection
from mlirfuse.kernels.matmul.family import MATMUL
from mlirfuse.kernels.matmul.problem import MatmulConfig
from mlirfuse.kernels.plan import Plan
from mlirfuse.options import FusionOptions
from mlirfuse.pipelines import engine
from mlirfuse.tuning import kernel_search

SM_90 = targets.parse("cuda:sm_90")
SPLIT_K = MatmulConfig(16, 32, 64, 4, 3, split_k=4)
GEMV = MatmulConfig(1, 16, 32, 4, 1)


def text_of(k):
    return matmul_text((1, 16, 128, k), (1, 3), (2, 3), (1, 2), "f16", (1, 2))


def plan(text, config, target=SM_90):
    """The plan of a module's only group."""
    options = FusionOptions(
        enable_feature=("kernels",),
        disable_pass=kernel_runner.KERNEL_PASSES,
        single_op_groups=True,
    )
    grouped, _ = engine.run(ir.Module.parse(text), target=target, options=options)
    (region,) = kernel_search.regions(grouped)
    found = MATMUL.plan(region, target, config)
    assert isinstance(found, Plan), found
    return found


@pytest.mark.parametrize("right", [(3, 2), (2, 3)])
def test_a_column_is_the_vector(right):
    """A matrix times a column is a GEMV of the matrix, whose tiles have no padded columns."""
    text = matmul_text((1, 4096, 1, 512), (1, 3), right, (1, 2), "f16", (1, 2))
    with ir.Context():
        problem = plan(text, None).problem
    assert (problem.m, problem.n, problem.k) == (1, 4096, 512)
    assert problem.a_k_contiguous
    assert problem.b_k_contiguous


SIZES = pytest.mark.parametrize(
    ("sizes", "left", "right"),
    [
        ((1, 1, 45, 70), (1, 3), (2, 3)),
        ((1, 1, 45, 64), (1, 3), (3, 2)),
        ((1, 1, 45, 70), (3,), (3, 2)),
        ((3, 1, 17, 33), (0, 3), (0, 2, 3)),
        ((1, 5, 33, 70), (1, 3), (2, 3)),
    ],
)


def check(interpreter, monkeypatch, config, sizes, left, right):
    """Runs a matmul with a bias, tanh and a residual with this configuration."""
    monkeypatch.setattr(selection, "choose_config", lambda *_: config)
    out = tuple(n for n in range(3) if n in (*left, *right))
    shape = tuple(sizes[a] for a in out)
    arrays = [draw([sizes[a] for a in axes], "f16", n) for n, axes in enumerate((left, right))]
    arrays += [draw((sizes[2],), "f32", 3), draw(shape, "f16", 4)]
    text = matmul_text(sizes, left, right, out, "f16", out)
    (found,) = run(interpreter, text, "matmul", arrays, [shape])
    a, b, bias, r = (x.astype(np.float64) for x in arrays)
    letters = "bmnk"
    spelled = ",".join("".join(letters[a] for a in axes) for axes in (left, right))
    total = np.einsum(f"{spelled}->{''.join(letters[a] for a in out)}", a, b)
    close(found, np.tanh(total + bias) + r, "f16")


@needs_triton
@SIZES
def test_split_k(interpreter, monkeypatch, sizes, left, right):
    check(interpreter, monkeypatch, SPLIT_K, sizes, left, right)


@needs_triton
@SIZES
def test_gemv(interpreter, monkeypatch, sizes, left, right):
    check(interpreter, monkeypatch, GEMV, sizes, left, right)


@needs_triton
def test_each_warp_has_a_part_of_k():
    """Of 64 elements of K each of four warps has 16: an instruction for each eight columns."""
    with ir.Context():
        found = plan(text_of(512), SPLIT_K)
        alone = plan(text_of(512), dataclasses.replace(SPLIT_K, split_k=1))
        texts = [triton_compiler.build(p.program, "sm_90").code.decode() for p in (found, alone)]
    assert "matmul.split_k(" in found.program.source
    assert ", None, None, 512, 512, 512, 16, 32, 64, 4)" in found.program.source
    assert "matmul.tile(" in alone.program.source
    # The accumulators of the warps are added at the end.
    assert [text.count("mma.sync") for text in texts] == [4, 4]
    assert texts[0].count("st.shared") > texts[1].count("st.shared")


@needs_triton
def test_operands_of_the_epilogue_are_loaded_first():
    with ir.Context():
        lines = plan(text_of(512), SPLIT_K).program.source.splitlines()
        tall = plan(text_of(512), MatmulConfig(64, 64, 64, 4, 3)).program.source
    sums = next(n for n, line in enumerate(lines) if "accumulator0 = " in line)
    loads = [n for n, line in enumerate(lines) if "tl.load(" in line]
    assert len(loads) == 2
    assert max(loads) < sums
    assert tall.index("accumulator0 = ") < tall.index("tl.load(")


def test_no_split_k():
    """Of integers, of computed operands, and of several accumulators."""
    with ir.Context():
        found = plan(INT8_MATMUL, SPLIT_K)
        gated = plan(several_matmuls_text(5, 53, 71, 2, True), SPLIT_K)
    assert "split_k" not in found.program.source + gated.program.source
    assert "tl.dot(a, b, accumulator1)" in gated.program.source


@needs_triton
@pytest.mark.parametrize("joint", [True, False])
def test_several_gemvs(interpreter, monkeypatch, joint):
    monkeypatch.setattr(selection, "choose_config", lambda *_: GEMV)
    check_several_matmuls(interpreter, 1, 53, 71, joint)


ROW = """
#nk = affine_map<(m, n, k) -> (n, k)>
#mk = affine_map<(m, n, k) -> (m, k)>
#mn = affine_map<(m, n, k) -> (m, n)>
#n = affine_map<(n) -> (n)>
func.func @main(%a: tensor<1x70xf16>, %b: tensor<45x70xf16>, %s: tensor<45xf16>) -> tensor<45xf16> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x45xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x45xf32>) -> tensor<1x45xf32>
  %c = linalg.matmul indexing_maps = [#mk, #nk, #mn]
      ins(%a, %b : tensor<1x70xf16>, tensor<45x70xf16>)
      outs(%f : tensor<1x45xf32>) -> tensor<1x45xf32>
  %v = tensor.collapse_shape %c [[0, 1]] : tensor<1x45xf32> into tensor<45xf32>
  %h = tensor.empty() : tensor<45xf16>
  %t = linalg.generic {indexing_maps = [#n, #n, #n], iterator_types = ["parallel"]}
      ins(%v, %s : tensor<45xf32>, tensor<45xf16>) outs(%h : tensor<45xf16>) {
  ^bb0(%i: f32, %j: f16, %o: f16):
    %x = arith.extf %j : f16 to f32
    %y = arith.addf %i, %x : f32
    %z = arith.truncf %y : f32 to f16
    linalg.yield %z : f16
  } -> tensor<45xf16>
  return %t : tensor<45xf16>
}
"""


@needs_triton
def test_a_row_that_lost_its_dimension_has_an_epilogue(interpreter, monkeypatch):
    monkeypatch.setattr(selection, "choose_config", lambda *_: GEMV)
    arrays = [draw(shape, "f16", n) for n, shape in enumerate([(1, 70), (45, 70), (45,)])]
    (found,) = run(interpreter, ROW, "matmul", arrays, [(45,)])
    a, b, s = (x.astype(np.float64) for x in arrays)
    close(found, (a @ b.T)[0] + s, "f16")
