"""Weight-only kernels that stream weights to registers: which matmuls, their source, their code."""

import re

import ml_dtypes
import numpy as np
import pytest
from iree.compiler import ir

from helpers.kernel_runner import needs_triton, planned
from helpers.weights_text import Weights
from mlirfuse import targets
from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.matmul import weight_only
from mlirfuse.kernels.matmul.family import MATMUL
from mlirfuse.kernels.matmul.problem import MatmulConfig
from mlirfuse.kernels.plan import Plan
from mlirfuse.tuning import kernel_search

HOPPER = targets.parse("cuda:sm_90")
STREAMING = MatmulConfig(16, 16, 2048, 8, 1, split_k=8, weight_streaming=True)


@pytest.fixture
def gluon(monkeypatch):
    monkeypatch.setattr(triton_compiler, "has_gluon", lambda: True)


def plan(asked, config=STREAMING, target=HOPPER):
    """The program of a matmul with a configuration."""
    text = asked if isinstance(asked, str) else asked.text()
    with ir.Context():
        module, _ = planned(text, "matmul")
        (found,) = [
            found
            for region in kernel_search.regions(module)
            if (found := MATMUL.plan(region, target, config)) is not None
        ]
        assert isinstance(found, Plan), found
        return found.program


def streams(program):
    return "zero_point, scale, matmul_weight_only.make_spec(" in program.source


def spec(bits, n, k, group_size, scaled, block_m, block_n, split_k, lines):
    return (
        f"make_spec(bits={bits}, n={n}, k={k}, group_size={group_size}, scaled={scaled}, "
        f"block_m={block_m}, block_n={block_n}, split_k={split_k}, lines={lines})"
    )


# --- the bits of weights -------------------------------------------------------------------------


def executed(text, given, kind):
    """The results of a kernel's instructions, as integers of 16 bits.

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
def test_words_are_dequantized(bits, dtype, scaled):
    """Every weight with every zero point; all is exact but the multiplication with the scale."""
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
    text = (library.i4_instructions if bits == 4 else library.i8_instructions)(half, scaled)
    given = {f"${count}": words, f"${count + 1}": taken, f"${count + 2}": times}
    for number, found in zip(numbers, executed(text, given, kind), strict=True):
        exact = (number - zero).astype(np.float64)
        if scaled:
            exact = (exact * scale.astype(np.float64)).astype(kind).astype(np.float64)
        elif bits == 8 and not half:
            exact = exact.astype(kind).astype(np.float64)
        assert np.array_equal(found, exact)


# --- which matmuls --------------------------------------------------------------------------------


def bfloat(asked):
    return asked.text().replace("f16", "bf16")


@pytest.mark.parametrize(
    "asked",
    [
        Weights(16, 64, 256),
        Weights(16, 64, 256, group_size=32),
        Weights(1, 77, 160),
        Weights(5, 40, 256, group_size=128, zero="i4"),
        Weights(5, 40, 256, "i8", group_size=16, zero="i8"),
        Weights(5, 40, 132, "i8", zero="i4"),
        Weights(128, 40, 256, group_size=64),
        bfloat(Weights(16, 64, 256, group_size=32, zero="i4")),
        bfloat(Weights(16, 64, 256, "i8")),
    ],
)
def test_streamed(gluon, asked):
    assert streams(plan(asked))


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(Weights(16, 64, 256, k_contiguous=False), id="N-contiguous"),
        pytest.param(Weights(16, 64, 192, group_size=48), id="a thread has two scales"),
        pytest.param(Weights(16, 64, 260), id="half a word"),
        pytest.param(Weights(16, 64, 128, zero="i8"), id="a zero point of eight bits"),
        pytest.param(bfloat(Weights(16, 64, 128, "i8", zero="i8")), id="nine bits in bf16"),
        pytest.param(Weights(129, 64, 256), id="large M"),
        pytest.param(Weights(None, 64, 256), id="dynamic M"),
        pytest.param(
            Weights(16, 64, 128).text().replace("arith.mulf", "arith.addf"), id="no scale"
        ),
        pytest.param(
            Weights(16, 128, 128).text().replace("(n, k) -> (n)>", "(n, k) -> (k)>"),
            id="a scale per element of K",
        ),
    ],
)
def test_not_streamed(gluon, asked):
    assert not streams(plan(asked))


def test_no_unsigned_weights(gluon):
    """Their sign bit would be flipped: the kernel with a prologue takes them."""
    with ir.Context():
        text = Weights(16, 64, 128, "i8").text().replace("arith.sitofp", "arith.uitofp")
        module, _ = planned(text, "matmul")
        (region,) = kernel_search.regions(module)
        assert not MATMUL.plan(region, HOPPER, STREAMING).program.in_gluon


def test_targets(gluon, monkeypatch):
    found = [
        weight_only.has_weight_only(targets.parse(n)) for n in ("cuda:sm_80", "cuda", "rocm:gfx942")
    ]
    assert found == [True, True, False]
    monkeypatch.setattr(triton_compiler, "has_gluon", lambda: False)
    assert not weight_only.has_weight_only(HOPPER)
    assert not streams(plan(Weights(16, 64, 256)))


def test_scales_of_columns_multiply_accumulators(gluon):
    """They are the same for all of K, and need no rounding of weights."""
    source = plan(Weights(16, 64, 256)).source
    assert spec(4, 64, 256, 0, False, 16, 16, 8, 2) in source
    assert (
        "v1 = tl.load(x2 + offs_n).to(tl.float32)\n    accumulator0 = accumulator0 * v1" in source
    )


def test_scales_of_groups_multiply_weights(gluon):
    """They are read as the weights are, by column and group; so are zero points."""
    source = plan(Weights(16, 64, 256, group_size=32, zero="i4")).source
    assert spec(4, 64, 256, 32, True, 16, 16, 8, 2) in source
    assert "accumulator0 * " not in source
    zero, scale = (source.split(f"def {name}")[1].split("@")[0] for name in ("zero_point", "scale"))
    assert (
        "half_of_byte(tl.load(x2 + (offs_n * (8) + k_group) // 2), offs_n * (8) + k_group)" in zero
    )
    assert "tl.load(x3 + offs_n * (8) + k_group)" in scale


@pytest.mark.parametrize(("m", "block_m"), [(1, 8), (8, 8), (9, 16), (16, 16)])
def test_tiles_have_no_empty_rows(gluon, m, block_m):
    assert f"tiles of {block_m} by 16." in plan(Weights(m, 64, 256)).source


@pytest.mark.parametrize(
    ("asked", "numbers"),
    [
        (Weights(12, 4096, 4096), (4, 4096, 4096, 0, False, 16, 32, 8, 1)),
        (Weights(5, 4096, 4096, group_size=32), (4, 4096, 4096, 32, True, 8, 16, 8, 2)),
        (Weights(12, 4096, 4096, "i8"), (8, 4096, 4096, 0, False, 16, 16, 8, 2)),
        (Weights(100, 4096, 4096, group_size=128), (4, 4096, 4096, 128, True, 32, 32, 8, 1)),
        (Weights(1, 4096, 14336, group_size=128), (4, 4096, 14336, 128, True, 8, 16, 8, 2)),
    ],
)
def test_measured_configurations(gluon, asked, numbers):
    assert spec(*numbers) in plan(asked, None).source


def test_candidates(gluon):
    """The tuner measures tiles whose warps split whole lines of K."""
    with ir.Context():
        _, (found,) = planned(Weights(3, 4096, 4096, "i8").text(), "matmul")
        tried = [c for c in MATMUL.configs(found.problem, HOPPER) if c.weight_streaming]
    assert len(tried) > 4
    for config in tried:
        assert config.block_m == 8
        assert config.block_k % (64 * config.split_k) == 0
        assert streams(plan(Weights(3, 4096, 4096, "i8"), config))


@needs_triton
@pytest.mark.skipif(not triton_compiler.has_gluon(), reason="needs Triton 3.6")
@pytest.mark.parametrize(
    ("asked", "arch"),
    [
        (Weights(5, 40, 320, group_size=64, zero="i4"), "sm_90"),
        (bfloat(Weights(9, 40, 256, group_size=32)), "sm_80"),
        (bfloat(Weights(5, 40, 256, "i8", group_size=16)), "sm_80"),
    ],
)
def test_object_code(asked, arch):
    program = plan(asked, STREAMING, targets.parse(f"cuda:{arch}"))
    assert streams(program)
    kernel = triton_compiler.build(program, arch)
    assert b"mma.sync" in kernel.code
    # Weights and rows of A reach the matrix instructions without shared memory.
    assert kernel.shared_memory <= STREAMING.block_m * STREAMING.block_n * STREAMING.num_warps * 4
