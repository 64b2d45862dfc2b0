"""Persistent matmuls in Gluon: which regions get one, their source, their object code."""

import dataclasses

import pytest
from iree.compiler import ir

from helpers.kernel_runner import needs_triton
from helpers.matmul_plans import COOPERATIVE, HOPPER, linear, plan, several
from helpers.matmul_text import INT8_MATMUL
from mlirfuse import targets
from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.matmul.family import MATMUL
from mlirfuse.kernels.matmul.problem import MatmulConfig, MatmulProblem
from mlirfuse.kernels.plan import Extent, Plan
from mlirfuse.targets.base import MeasuredConfig

PING_PONG = MatmulConfig(64, 128, 64, 4, 5, 4, consumer_warpgroups=2, ping_pong=True)
TWO_BLOCKS = MatmulConfig(128, 128, 64, 4, 6, consumer_warpgroups=2, ping_pong=True)
THREE = MatmulConfig(192, 128, 64, 4, 5, consumer_warpgroups=3)


@pytest.fixture
def gluon(monkeypatch):
    monkeypatch.setattr(triton_compiler, "has_gluon", lambda: True)


def is_persistent(text, config=COOPERATIVE, target=HOPPER):
    """Whether the matmul has a persistent kernel."""
    with ir.Context():
        found = plan(text, config, target)
        assert isinstance(found, Plan), found
        source = found.program.source
        one_tile = any(call in source for call in ("matmul.tile(", "matmul.gemv(", "tl.dot("))
        assert ("matmul_sm90" in source) != one_tile
        return "matmul_sm90" in source


@pytest.mark.usefixtures("gluon")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (linear((256, 512, 128)), True),
        (linear((197, 256, 64), dtype="bf16"), True),
        (linear((1, 256, 64)), True),
        (linear((256, 512, 128, 1), left=(3, 0, 2), right=(3, 1, 2)), True),
        (linear((256, 384, 128)), False),
        (linear((256, 512, 96)), False),
        (linear((256, 512, 128), right=(2, 1)), False),
        (linear((256, 512, 128), left=(2, 0)), False),
        (linear((256, 512, 128, 2), left=(3, 0, 2), right=(3, 1, 2)), False),
        (linear((None, 512, 128)), False),
        (linear((1, 256, 64), left=(2,)), False),
        (INT8_MATMUL.replace("71", "64").replace("40", "256"), False),
        (several(256, 256, 128, 3, joint=False), True),
        (several(256, 256, 128, 3, joint=False, computed=True), False),
        (several(256, 256, 128, 2, joint=True), False),
    ],
)
def test_regions_with_persistent_kernels(text, expected):
    """Others, as those whose blocks do not divide N and K, have one tile per CTA."""
    assert is_persistent(text) == expected


def test_no_persistent_kernel_elsewhere(monkeypatch):
    text = linear((256, 512, 128))
    monkeypatch.setattr(triton_compiler, "has_gluon", lambda: True)
    assert not is_persistent(text, target=targets.parse("cuda:sm_80"))
    monkeypatch.setattr(triton_compiler, "has_gluon", lambda: False)
    assert not is_persistent(text)


@pytest.mark.usefixtures("gluon")
def test_source_has_sizes_strides_and_tiles():
    with ir.Context():
        found = plan(linear((197, 512, 128)))
        spec = (
            "m=197, n=512, k=128, b_stride=128, masked=False, parts=1, accumulators=1, "
            "block_m=128, block_n=256, num_stages=4, consumer_warpgroups=2, ping_pong=False, "
            "group_m=8, num_ctas=4, epilogue_n=64"
        )
        assert f"matmul_sm90.make_spec({spec})" in found.program.source
        assert "def row_start(offs_m):\n    return offs_m * 128, 0\n" in found.program.source
        assert "def block_start(step):\n    return step * 64, 0\n" in found.program.source
        assert "mask_m = offs_m < 197" in found.program.source
        assert found.grid[0] == Extent(4)
        found = plan(linear((6400, 1024, 128)), PING_PONG)
        spec = (
            "parts=1, accumulators=1, block_m=64, block_n=128, num_stages=5, "
            "consumer_warpgroups=2, ping_pong=True, group_m=4, num_ctas=132, epilogue_n=64)"
        )
        assert spec in found.program.source
        assert "mask_m" not in found.program.source
        assert found.grid == (Extent(132), Extent(1), Extent(1))


@pytest.mark.usefixtures("gluon")
@pytest.mark.parametrize(
    ("function", "block_n", "epilogue_n"),
    [("math.erf", 256, 64), ("math.tanh", 128, 64), ("math.tanh", 64, 64), ("math.absf", 256, 256)],
)
def test_long_epilogues_are_called_for_slices(function, block_n, epilogue_n):
    config = dataclasses.replace(COOPERATIVE, block_n=block_n)
    with ir.Context():
        source = plan(linear((256, 512, 128), function=function), config).program.source
    num_ctas = 256 // 128 * (512 // block_n)
    assert f"block_n={block_n}, " in source
    assert f"num_ctas={num_ctas}, epilogue_n={epilogue_n})" in source


@pytest.mark.usefixtures("gluon")
def test_slices_of_one_weight():
    """Three results have tiles of their own; gated ones are accumulated by one tile."""
    with ir.Context():
        source = plan(several(256, 128, 64, 3, joint=False), PING_PONG).program.source
        assert "(x1 + 0, x1 + 0 + 8192, x1 + 0 + 16384,)," in source
        assert "if part == 2:" in source
        assert "m=256, n=128, k=64, b_stride=64, masked=False, parts=3, accumulators=1, " in source
        source = plan(several(256, 128, 64, 2, joint=True), PING_PONG).program.source
        assert "(x1 + 0, x1 + 0 + 8192,)," in source
        assert "accumulator1 = accumulators[1]" in source
        assert "m=256, n=128, k=64, b_stride=64, masked=False, parts=1, accumulators=2, " in source


@pytest.mark.usefixtures("gluon")
@pytest.mark.parametrize(
    ("wide", "first", "expected"), [(72, 8, True), (72, 4, False), (68, 0, False)]
)
def test_slices_that_are_not_aligned(wide, first, expected):
    text = several(256, 128, 64, 2, joint=True)
    whole, narrow = "%w: tensor<256x64xf16>", f"%w: tensor<256x{wide}xf16>"
    text = text.replace(whole, narrow).replace(": tensor<256x64xf16> to", f"{narrow[2:]} to")
    for row in (0, 128):
        text = text.replace(f"%w[{row}, 0]", f"%w[{row}, {first}]")
    assert is_persistent(text, PING_PONG) == expected


@pytest.mark.usefixtures("gluon")
def test_measured_configurations_choose_the_kernel():
    problem = MatmulProblem(256, 512, 128, 1)
    measured = (MeasuredConfig("matmul", problem.to_dict(), COOPERATIVE.to_dict(), 1.0),)
    assert is_persistent(
        linear((256, 512, 128)), None, dataclasses.replace(HOPPER, measured=measured)
    )
    assert not is_persistent(
        linear((256, 384, 128)), None, dataclasses.replace(HOPPER, measured=measured)
    )


@pytest.mark.usefixtures("gluon")
def test_measured_by_the_tuner():
    def found(m, n, k, **traits):
        configs = MATMUL.configs(MatmulProblem(m, n, k, 1, **traits), HOPPER)
        return [config for config in configs if config.consumer_warpgroups]

    assert {config.block_n for config in found(4096, 768, 768)} == {128, 256}
    assert {config.block_n for config in found(4096, 640, 768)} == {128}
    assert {config.block_n for config in found(4096, 768, 768, accumulators=2)} == {64, 128}
    assert not found(64, 768, 768)
    assert not found(4096, 768, 800)
    assert not found(4096, 768, 768, b_k_contiguous=False)


@needs_triton
@pytest.mark.parametrize(
    ("text", "config", "threads", "stores"),
    [
        (linear((197, 256, 128), dtype="bf16"), COOPERATIVE, 384, 2 * 4),
        (linear((197, 256, 128), function="math.absf"), TWO_BLOCKS, 384, 2 * 8),
        (several(100, 128, 64, 2, joint=True), PING_PONG, 384, 2 * 4),
        (several(64, 128, 64, 3, joint=False), THREE, 512, 36),
    ],
)
def test_object_code(text, config, threads, stores):
    """Each warpgroup has code for one slice: 64 rows, 16 bytes of a row per thread."""
    if not triton_compiler.has_gluon():
        pytest.skip("this Triton has an older Gluon")
    with ir.Context():
        kernel = triton_compiler.build(plan(text, config).program, "sm_90")
    code = kernel.code.decode()
    assert ".target sm_90a" in code
    assert "wgmma.mma_async" in code
    assert "cp.async.cg.shared.global" in code
    assert code.count("st.global.v4") == stores
    assert kernel.workgroup_size == (threads, 1, 1)
