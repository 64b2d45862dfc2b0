"""Products with weights of i8 and i4: planned, and interpreted against float64."""

import numpy as np
import pytest
from iree.compiler import ir

from helpers.kernel_runner import KERNEL_PASSES, TARGET, close, draw, needs_triton, planned, run
from helpers.weights_text import Weights
from mlirfuse.core import NoMatch, Reason
from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.matmul import planner as matmul
from mlirfuse.options import FusionOptions
from mlirfuse.pipelines import engine
from mlirfuse.tuning import kernel_search


def packed(array):
    """Pairs of numbers of four bits in a byte each, the first in the lower bits."""
    flat = array.reshape(-1).astype(np.uint8) & 15
    flat = np.pad(flat, (0, flat.size % 2))
    return (flat[0::2] | flat[1::2] << 4).view(np.int8)


def integers(shape, kind, seed):
    bits = int(kind[1:])
    return np.random.default_rng(seed).integers(-(1 << bits - 1), 1 << bits - 1, shape)


@needs_triton
@pytest.mark.parametrize(
    "weights",
    [
        Weights(37, 40, 96),
        Weights(37, 40, 96, inside=False),
        Weights(1, 40, 130),
        Weights(1, 40, 130, inside=False),
        Weights(5, 40, 128, run=32),
        Weights(5, 40, 128, run=32, zero="i4"),
        Weights(1, 24, 192, run=64, zero="i8"),
        Weights(None, 40, 256, run=128),
        Weights(20, 36, 96, run=48, zero="i4", inside=False),
        Weights(20, 40, 128, "i8", run=64, zero="i8"),
        Weights(1, 40, 128, "i8", run=32, inside=False),
    ],
)
def test_product(interpreter, weights):
    rows = weights.rows or 70
    x = draw((rows, weights.terms), "f16", 1)
    w, scale = integers(weights.shape, weights.narrow, 2), draw(weights.scales, "f16", 3, 0.1)
    zero = integers(weights.scales, weights.zero or "i4", 4) if weights.zero else None
    narrow = weights.narrow, weights.zero
    arrays = [x, packed(w) if narrow[0] == "i4" else w.astype(np.int8), scale]
    if zero is not None:
        arrays.append(packed(zero) if narrow[1] == "i4" else zero.astype(np.int8))
    (found,) = run(interpreter, weights.text(), "matmul", arrays, [(rows, weights.columns)])
    wide, factor = w.astype(np.float64), scale.astype(np.float64)
    offset = np.zeros(weights.scales) if zero is None else zero.astype(np.float64)
    # Of rows (n, g, s), (g, s, n), (n, k) and (k, n): where the terms are that share a scale.
    axis = 1 + weights.inside if weights.run else int(weights.inside)
    values = (wide - np.expand_dims(offset, axis)) * np.expand_dims(factor, axis)
    columns = weights.columns
    right = values.reshape(columns, -1).T if weights.inside else values.reshape(-1, columns)
    close(found, x.astype(np.float64) @ right, "f16")


@pytest.mark.parametrize(
    ("weights", "tile"),
    [
        (Weights(1, 4096, 4096), "1 by 8"),
        (Weights(16, 4096, 4096, "i8"), "16 by 32"),
        (Weights(500, 4096, 4096, "i8"), "128 by 128"),
        # A dynamic number of rows counts as 512, for which tiles of 16 are too low.
        (Weights(None, 4096, 4096), "128 by 128"),
    ],
)
def test_measured_tiles(monkeypatch, weights, tile):
    """Without a Triton for weights that go straight to matrix units."""
    monkeypatch.setattr(triton_compiler, "has_gluon", lambda: False)
    with ir.Context():
        _, (plan,) = planned(weights.text(), "matmul")
    assert f"tiles of {tile}." in plan.program.source


def test_blocks_divide_runs():
    """A block of terms has one scale for each column, and its start says which."""
    with ir.Context():
        _, (plan,) = planned(Weights(200, 256, 4096, run=32).text(), "matmul")
        lines = [line.strip() for line in plan.program.source.splitlines()]
    assert "for start in tl.range(0, 4096, 32):" in lines
    assert "run = start // 32" in lines
    assert "term_pair = (start % 32 // 2 + tl.arange(0, 16))[:, None]" in lines
    assert any("column * (2048) + run * (16) + term_pair" in line for line in lines)
    assert any("column * (128) + run" in line for line in lines)
    assert plan.key.form == "16 bits, k inside, k inside, computed, 4 bits, runs"


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        (Weights(20, 40, 96, run=8), "runs of 8 terms"),
        (Weights(20, 41, 96, inside=False), "rows of 41 i4"),
        (Weights(20, 40, 95), "rows of 95 i4"),
    ],
)
def test_no_kernel(weights, said):
    with ir.Context():
        _, (plan,) = planned(weights.text(), "matmul")
    assert isinstance(plan, NoMatch)
    assert plan.reason is Reason.STRUCTURE
    assert said in plan.detail


@pytest.mark.parametrize("op", ["arith.uitofp", "arith.addi"])
def test_no_kernel_for_other_ops_on_i4(op):
    """A tile holds them with their sign in eight bits."""
    text = Weights(20, 40, 96).text()
    if op == "arith.uitofp":
        text = text.replace("arith.sitofp", op)
    else:
        more = f"%t = {op} %a, %a : i4\n    %f = arith.sitofp %t"
        text = text.replace("%f = arith.sitofp %a", more)
    with ir.Context():
        _, (plan,) = planned(text, "matmul")
    assert isinstance(plan, NoMatch)
    assert f"{op} of an i4" in plan.detail


def test_blocks_of_tiles_for_whole_operands_divide_runs():
    """A tile of workgroups that stay is replaced, and then its block."""
    found = matmul.Tiling(128, 128, 64, 4, 3, groups=2)
    with ir.Context():
        options = FusionOptions(enable_feature=("kernels",), disable_pass=KERNEL_PASSES)
        module = ir.Module.parse(Weights(256, 256, 256, run=32).text())
        grouped, _ = engine.run(module, target=TARGET, options=options)
        (region,) = kernel_search.regions(grouped)
        source = matmul.supports(region, TARGET, found).program.source
    assert "for start in tl.range(0, 256, 32):" in source


@needs_triton
@pytest.mark.parametrize(
    "weights", [Weights(1, 64, 512, run=128), Weights(300, 64, 512, zero="i4")]
)
def test_object_code(weights):
    with ir.Context():
        _, (plan,) = planned(weights.text(), "matmul")
        text = triton_compiler.build(plan.program, "sm_90").code.decode()
    assert "mma" in text
    assert ".target sm_90" in text
