"""Matmuls with weights of i8 and i4 in the loop over K: planned, and interpreted."""

import numpy as np
import pytest
from iree.compiler import ir

from helpers.kernel_runner import (
    APART,
    KERNEL_PASSES,
    TARGET,
    close,
    draw,
    needs_triton,
    planned,
    run,
)
from helpers.weights_text import Weights
from mlirfuse.core import NoMatch, Reason
from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.matmul.family import MATMUL
from mlirfuse.kernels.matmul.problem import MatmulConfig
from mlirfuse.options import FusionOptions
from mlirfuse.pipelines import engine
from mlirfuse.tuning import kernel_search


def packed(array):
    """Pairs of i4 in a byte each, the first in the lower bits."""
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
        Weights(37, 40, 96, k_contiguous=False),
        Weights(1, 40, 130),
        Weights(1, 40, 130, k_contiguous=False),
        Weights(5, 40, 128, group_size=32),
        Weights(5, 40, 128, group_size=32, zero="i4"),
        Weights(1, 24, 192, group_size=64, zero="i8"),
        Weights(None, 40, 256, group_size=128),
        Weights(20, 36, 96, group_size=48, zero="i4", k_contiguous=False),
        Weights(20, 40, 128, "i8", group_size=64, zero="i8"),
        Weights(1, 40, 128, "i8", group_size=32, k_contiguous=False),
    ],
)
def test_matmul_of_weights(interpreter, weights, monkeypatch):
    # The kernel for few rows is written in Gluon, which the interpreter does not run.
    monkeypatch.setattr(triton_compiler, "has_gluon", lambda: False)
    rows = weights.m or 70
    x = draw((rows, weights.k), "f16", 1)
    w, scale = integers(weights.shape, weights.dtype, 2), draw(weights.scales, "f16", 3, 0.1)
    zero = integers(weights.scales, weights.zero or "i4", 4) if weights.zero else None
    narrow = weights.dtype, weights.zero
    arrays = [x, packed(w) if narrow[0] == "i4" else w.astype(np.int8), scale]
    if zero is not None:
        arrays.append(packed(zero) if narrow[1] == "i4" else zero.astype(np.int8))
    (found,) = run(interpreter, weights.text(), "matmul", arrays, [(rows, weights.n)])
    wide, factor = w.astype(np.float64), scale.astype(np.float64)
    offset = np.zeros(weights.scales) if zero is None else zero.astype(np.float64)
    # Of (n, g, s), (g, s, n), (n, k) and (k, n): the dimension of K within a group.
    axis = 1 + weights.k_contiguous if weights.group_size else int(weights.k_contiguous)
    values = (wide - np.expand_dims(offset, axis)) * np.expand_dims(factor, axis)
    columns = weights.n
    right = values.reshape(columns, -1).T if weights.k_contiguous else values.reshape(-1, columns)
    close(found, x.astype(np.float64) @ right, "f16")


@pytest.mark.parametrize(
    ("weights", "tile"),
    [
        (Weights(1, 4096, 4096), "1 by 8"),
        (Weights(16, 4096, 4096, "i8"), "16 by 32"),
        (Weights(500, 4096, 4096, "i8"), "128 by 128"),
        # A dynamic M counts as 512, for which tiles of 16 rows are too small.
        (Weights(None, 4096, 4096), "128 by 128"),
    ],
)
def test_measured_configurations(monkeypatch, weights, tile):
    """Without a Triton that streams weights."""
    monkeypatch.setattr(triton_compiler, "has_gluon", lambda: False)
    with ir.Context():
        _, (plan,) = planned(weights.text(), "matmul")
    assert f"tiles of {tile}." in plan.program.source


def test_blocks_divide_groups():
    """A block of K has one scale per column, by its group."""
    with ir.Context():
        _, (plan,) = planned(Weights(200, 256, 4096, group_size=32).text(), "matmul")
        lines = [line.strip() for line in plan.program.source.splitlines()]
    assert "for start_k in tl.range(0, 4096, 32):" in lines
    assert "k_group = start_k // 32" in lines
    assert "offs_k_pair = (start_k % 32 // 2 + tl.arange(0, 16))[:, None]" in lines
    assert any("offs_n * (2048) + k_group * (16) + offs_k_pair" in line for line in lines)
    assert any("offs_n * (128) + k_group" in line for line in lines)
    assert plan.problem.traits == (16, True, True, 1, True, 4, True, False, False, 0, "", 1)


@pytest.mark.parametrize(
    ("weights", "fragment"),
    [
        (Weights(20, 40, 96, group_size=8), "groups of 8 elements of K"),
        (Weights(20, 41, 96, k_contiguous=False), "rows of 41 i4"),
        (Weights(20, 40, 95), "rows of 95 i4"),
    ],
)
def test_no_kernel(weights, fragment):
    with ir.Context():
        _, (plan,) = planned(weights.text(), "matmul")
    assert isinstance(plan, NoMatch)
    assert plan.reason is Reason.STRUCTURE
    assert fragment in plan.detail


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


def test_blocks_of_a_replaced_persistent_configuration_divide_groups():
    """A persistent configuration becomes one of one tile per CTA, and then its block changes."""
    found = MatmulConfig(128, 128, 64, 4, 3, consumer_warpgroups=2)
    with ir.Context():
        options = FusionOptions(disable_pass=(*KERNEL_PASSES, *APART))
        module = ir.Module.parse(Weights(256, 256, 256, group_size=32).text())
        grouped, _ = engine.run(module, target=TARGET, options=options)
        (region,) = kernel_search.regions(grouped)
        source = MATMUL.plan(region, TARGET, found).program.source
    assert "for start_k in tl.range(0, 256, 32):" in source


@needs_triton
@pytest.mark.parametrize(
    "weights", [Weights(1, 64, 512, group_size=128), Weights(300, 64, 512, zero="i4")]
)
def test_object_code(weights):
    with ir.Context():
        _, (plan,) = planned(weights.text(), "matmul")
        text = triton_compiler.build(plan.program, "sm_90").code.decode()
    assert "mma" in text
    assert ".target sm_90" in text
