"""Weights that go from memory straight to matrix units: which products, their text, their code."""

import re

import ml_dtypes
import numpy as np
import pytest
from iree.compiler import ir

from helpers.kernel_runner import needs_triton, planned
from helpers.weights_text import Weights
from mlirfuse import targets
from mlirfuse.core import NoMatch
from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.matmul import planner as matmul
from mlirfuse.kernels.matmul import weight_only
from mlirfuse.kernels.matmul.tilings import Tiling
from mlirfuse.kernels.plan import Plan
from mlirfuse.tuning import kernel_search

HOPPER = targets.parse("cuda:sm_90")
STRAIGHT = Tiling(16, 16, 2048, 8, 1, shares=8, straight=1)


@pytest.fixture
def gluon(monkeypatch):
    monkeypatch.setattr(triton_compiler, "has_gluon", lambda: True)


def plan(asked, tiling=STRAIGHT, target=HOPPER):
    """What is planned for a product, with a tiling."""
    text = asked if isinstance(asked, str) else asked.text()
    with ir.Context():
        module, _ = planned(text, "matmul")
        (found,) = [
            found
            for region in kernel_search.regions(module)
            if (found := matmul.supports(region, target, tiling)) is not None
        ]
        assert isinstance(found, Plan), found
        return found.program


def is_straight(program):
    return "offset, factor, matmul_weight_only.shaped(" in program.source


# --- the bits of numbers -------------------------------------------------------------------------


def executed(text, given, kind):
    """What the instructions of a kernel leave in their results, as numbers of 16 bits.

    Args:
      text: the instructions, with `$0`, ... in place of operands.
      given: words by operand.
      kind: NumPy's type of halves of words.
    """
    known = dict(given)

    def word(name):
        one = next(iter(given.values()))
        return known[name] if name in known else np.full_like(one, int(name, 0))

    def halves(name):
        return word(name).view(np.uint16).view(kind).astype(np.float64)

    def wide(name):
        return word(name).view(np.float32)

    def narrowed(numbers):
        return np.asarray(numbers, np.float64).astype(kind).view(np.uint16).view(np.uint32)

    def permuted(low, high, places):
        eight = np.concatenate([word(n).view(np.uint8).reshape(-1, 4) for n in (low, high)], 1)
        chosen = [int(places, 16) >> 4 * n & 7 for n in range(4)]
        return np.ascontiguousarray(eight[:, chosen]).view(np.uint32)[:, 0]

    operations = {
        "shr.u32": lambda a, n: word(a) >> int(n),
        "mov.b32": word,
        "xor.b32": lambda a, b: word(a) ^ word(b),
        "lop3.b32": lambda a, m, b, table: (word(a) & word(m)) ^ word(b),
        "prmt.b32": permuted,
        "sub.rn.f32": lambda a, b: (wide(a) - wide(b)).view(np.uint32),
        "mul.rn.f32": lambda a, b: (wide(a) * wide(b)).view(np.uint32),
        "cvt.rn.bf16x2.f32": lambda high, low: narrowed(
            np.stack([wide(low), wide(high)], 1).reshape(-1)
        ),
    }
    for dtype in ("f16x2", "bf16x2"):
        operations[f"sub.rn.{dtype}"] = lambda a, b: narrowed(halves(a) - halves(b))
        operations[f"mul.rn.{dtype}"] = lambda a, b: narrowed(halves(a) * halves(b))
        operations[f"fma.rn.{dtype}"] = lambda a, b, c: narrowed(halves(a) * halves(b) + halves(c))
    found = {}
    for line in text.strip("{}\n").rstrip(";").split(";\n"):
        name, _, rest = line.strip().partition(" ")
        if not name or name == ".reg":
            continue
        pair = re.fullmatch(r"{(.*), (.*)}, (.*)", rest)
        if pair is not None:
            low, high = word(pair[3]).view(np.uint16).reshape(-1, 2).T
            found[pair[1]], found[pair[2]] = low, high
            continue
        target, *operands = rest.split(", ")
        if name == "lop3.b32":
            assert operands[-1] == "0x6a"
        known[target] = operations[name](*operands)
    return [found[f"${n}"].view(kind).astype(np.float64) for n in range(len(found))]


def twice(numbers, kind):
    return np.repeat(np.asarray(numbers, kind), 2).view(np.uint32)


@needs_triton
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("bits", [4, 8])
def test_words_are_taken_apart(bits, dtype, scaled):
    """Every number with every zero point; all is exact but the product with the scale."""
    pytest.importorskip("triton.experimental.gluon")
    from mlirfuse.kernels.device import matmul_weight_only as library

    half, count = dtype == "f16", 32 // bits
    kind = np.float16 if half else ml_dtypes.bfloat16
    least = -(1 << bits - 1)
    every = np.arange(least, -least)
    zero, first = (a.reshape(-1) for a in np.meshgrid(every, every))
    numbers = [(first - least + 37 * n) % (-2 * least) + least for n in range(count)]
    mask = (1 << bits) - 1
    words = sum((number & mask).astype(np.uint32) << bits * n for n, number in enumerate(numbers))
    scale = np.random.default_rng(1).uniform(0.01, 0.1, zero.size).astype(kind)
    if bits == 8 and not half:
        taken = (zero + 8388736.0).astype(np.float32).view(np.uint32)
        times = scale.astype(np.float32).view(np.uint32)
    else:
        base = {(4, True): 1032, (4, False): 136, (8, True): 1152}[bits, half]
        taken, times = twice(zero + base, kind), twice(scale, kind)
    text = (library.fours_text if bits == 4 else library.bytes_text)(half, scaled)
    given = {f"${count}": words, f"${count + 1}": taken, f"${count + 2}": times}
    for number, found in zip(numbers, executed(text, given, kind), strict=True):
        exact = (number - zero).astype(np.float64)
        if scaled:
            exact = (exact * scale.astype(np.float64)).astype(kind).astype(np.float64)
        elif bits == 8 and not half:
            exact = exact.astype(kind).astype(np.float64)
        assert np.array_equal(found, exact)


# --- which products -------------------------------------------------------------------------------


def bfloat(asked):
    return asked.text().replace("f16", "bf16")


@pytest.mark.parametrize(
    "asked",
    [
        Weights(16, 64, 256),
        Weights(16, 64, 256, run=32),
        Weights(1, 77, 160),
        Weights(5, 40, 256, run=128, zero="i4"),
        Weights(5, 40, 256, "i8", run=16, zero="i8"),
        Weights(5, 40, 132, "i8", zero="i4"),
        Weights(128, 40, 256, run=64),
        bfloat(Weights(16, 64, 256, run=32, zero="i4")),
        bfloat(Weights(16, 64, 256, "i8")),
    ],
)
def test_straight(gluon, asked):
    assert is_straight(plan(asked))


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(Weights(16, 64, 256, inside=False), id="columns lie side by side"),
        pytest.param(Weights(16, 64, 192, run=48), id="a thread has two scales"),
        pytest.param(Weights(16, 64, 260), id="half a word"),
        pytest.param(Weights(16, 64, 128, zero="i8"), id="a zero point of eight bits"),
        pytest.param(bfloat(Weights(16, 64, 128, "i8", zero="i8")), id="nine bits in bf16"),
        pytest.param(Weights(129, 64, 256), id="many rows"),
        pytest.param(Weights(None, 64, 256), id="any number of rows"),
        pytest.param(
            Weights(16, 64, 128).text().replace("arith.mulf", "arith.addf"), id="no scale"
        ),
        pytest.param(
            Weights(16, 128, 128).text().replace("(n, k) -> (n)>", "(n, k) -> (k)>"),
            id="a scale of each term",
        ),
    ],
)
def test_not_straight(gluon, asked):
    assert not is_straight(plan(asked))


def test_no_unsigned_weights(gluon):
    """Their sign would be turned."""
    with ir.Context():
        text = Weights(16, 64, 128, "i8").text().replace("arith.sitofp", "arith.uitofp")
        module, _ = planned(text, "matmul")
        (region,) = kernel_search.regions(module)
        assert isinstance(matmul.supports(region, HOPPER, STRAIGHT), NoMatch)


def test_targets(gluon, monkeypatch):
    found = [weight_only.supports(targets.parse(n)) for n in ("cuda:sm_80", "cuda", "rocm:gfx942")]
    assert found == [True, True, False]
    monkeypatch.setattr(triton_compiler, "has_gluon", lambda: False)
    assert not weight_only.supports(HOPPER)
    assert not is_straight(plan(Weights(16, 64, 256)))


def test_scales_of_columns_multiply_sums(gluon):
    """They are the same for all terms, and need no rounding of weights."""
    source = plan(Weights(16, 64, 256)).source
    assert "matmul_weight_only.shaped(4, 64, 256, 0, False, 16, 16, 8, 2)" in source
    assert "v1 = tl.load(x2 + column).to(tl.float32)\n    total0 = total0 * v1" in source


def test_scales_of_runs_multiply_weights(gluon):
    """So do zero points, which are read as the weights are: by column and run."""
    source = plan(Weights(16, 64, 256, run=32, zero="i4")).source
    assert "matmul_weight_only.shaped(4, 64, 256, 32, True, 16, 16, 8, 2)" in source
    assert "total0 * " not in source
    offset, factor = (source.split(f"def {name}")[1].split("@")[0] for name in ("offset", "factor"))
    assert "half_of_byte(tl.load(x2 + (column * (8) + run) // 2), column * (8) + run)" in offset
    assert "tl.load(x3 + column * (8) + run)" in factor


@pytest.mark.parametrize(("rows", "height"), [(1, 8), (8, 8), (9, 16), (16, 16)])
def test_tiles_are_as_high_as_the_rows(gluon, rows, height):
    assert f"tiles of {height} by 16." in plan(Weights(rows, 64, 256)).source


@pytest.mark.parametrize(
    ("asked", "tile"),
    [
        (Weights(1, 4096, 4096), "(4, 4096, 4096, 0, False, 8, 16, 8, 4)"),
        (Weights(5, 4096, 4096, run=32), "(4, 4096, 4096, 32, True, 8, 16, 8, 2)"),
        (Weights(12, 4096, 4096, "i8"), "(8, 4096, 4096, 0, False, 16, 16, 8, 2)"),
        (Weights(100, 4096, 4096, run=128), "(4, 4096, 4096, 128, True, 32, 32, 8, 1)"),
        (Weights(1, 4096, 14336, run=128), "(4, 4096, 14336, 128, True, 8, 16, 8, 2)"),
    ],
)
def test_measured_tiles(gluon, asked, tile):
    assert f"matmul_weight_only.shaped{tile}" in plan(asked, None).source


def test_candidates(gluon):
    """A search tries tiles that divide whole blocks among warps."""
    with ir.Context():
        _, (found,) = planned(Weights(3, 4096, 4096, "i8").text(), "matmul")
        tried = [t for t in matmul.candidates(found.key) if t.straight]
    assert len(tried) > 4
    for tiling in tried:
        assert tiling.height == 8
        assert tiling.block % (64 * tiling.shares) == 0
        assert is_straight(plan(Weights(3, 4096, 4096, "i8"), tiling))


@needs_triton
@pytest.mark.skipif(not triton_compiler.has_gluon(), reason="needs Triton 3.9")
@pytest.mark.parametrize(
    ("asked", "arch"),
    [
        (Weights(5, 40, 320, run=64, zero="i4"), "sm_90"),
        (bfloat(Weights(9, 40, 256, run=32)), "sm_80"),
        (bfloat(Weights(5, 40, 256, "i8", run=16)), "sm_80"),
    ],
)
def test_object_code(asked, arch):
    program = plan(asked, STRAIGHT, targets.parse(f"cuda:{arch}"))
    assert is_straight(program)
    kernel = triton_compiler.build(program, arch)
    assert b"mma.sync" in kernel.code
    # Weights and rows move to where they are multiplied without workgroup memory.
    assert kernel.shared_memory <= STRAIGHT.height * STRAIGHT.width * STRAIGHT.warps * 4
