"""Attention kernels in Gluon: which groups get one, and that they are built."""

import dataclasses

import pytest
from iree.compiler import ir

from helpers.attention_text import write
from helpers.kernel_runner import APART, KERNEL_PASSES, needs_triton
from mlirfuse import targets
from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.attention.family import ATTENTION
from mlirfuse.kernels.attention.problem import (
    OVERLAPPED_SM90,
    WARP_SPECIALIZED_SM90,
    AttentionConfig,
    AttentionProblem,
)
from mlirfuse.options import FusionOptions
from mlirfuse.pipelines import engine
from mlirfuse.targets.base import MeasuredConfig
from mlirfuse.tuning import kernel_search

HOPPER = targets.parse("cuda:sm_90")
OVERLAPPED = "attention_overlapped_sm90.attention("
WARP_SPECIALIZED = "attention_warp_specialized_sm90.attention("
PORTABLE = "attention.online_softmax_step("


def planned(extents, mask="", dtype="f16", target=HOPPER, config=None):
    """The plan of an attention, while its context lives."""
    text, _ = write("main", extents, dtype=dtype, mask=mask)
    options = FusionOptions(enable_feature=("kernels",), disable_pass=(*KERNEL_PASSES, *APART))
    grouped, _ = engine.run(ir.Module.parse(text), target=target, options=options)
    (region,) = kernel_search.regions(grouped)
    return ATTENTION.plan(region, target, config)


@pytest.fixture
def gluon(monkeypatch):
    monkeypatch.setattr(triton_compiler, "has_gluon", lambda: True)


@pytest.mark.usefixtures("gluon")
@pytest.mark.parametrize(
    ("extents", "mask", "called"),
    [
        # Loops: batch, KV heads, query heads of each, queries, head sizes of v and q, keys.
        ((2, 3, 1, 197, 64, 64, 197), "", OVERLAPPED),
        ((2, 3, 1, 197, 64, 64, 197), "causal", OVERLAPPED),
        ((2, 3, 2, 256, 128, 128, 384), "", WARP_SPECIALIZED),
        ((2, 3, 2, 130, 128, 128, 384), "", OVERLAPPED),
        ((2, 3, 2, 256, 128, 128, 170), "", WARP_SPECIALIZED),
        ((2, 3, 2, 256, 128, 128, 70), "", OVERLAPPED),  # less than one block of keys
        ((2, 3, 2, 197, 128, 128, 197), "causal", WARP_SPECIALIZED),
        ((1, 32, 1, 64, 128, 128, 1024), "causal", OVERLAPPED),
        ((2, 3, 1, 130, 128, 128, 70), "boolean", PORTABLE),
        ((2, 3, 1, 130, 128, 128, 70), "bias", PORTABLE),
        ((2, 30, 1, 130, 96, 96, 70), "", OVERLAPPED),
        ((2, 3, 1, 130, 96, 96, 70), "", PORTABLE),  # so few that tiles have 16 queries
        ((2, 3, 1, 256, 80, 80, 170), "causal", WARP_SPECIALIZED),
        ((2, 3, 1, 130, 40, 40, 70), "", OVERLAPPED),
        ((2, 3, 1, 130, 100, 100, 70), "", PORTABLE),
        ((2, 3, 1, 130, 32, 32, 70), "", PORTABLE),
        ((2, 3, 1, 130, 64, 128, 70), "", PORTABLE),
        ((2, 3, 1, 40, 64, 64, 70), "", PORTABLE),
        ((1, 1, 1, 64, 64, 64, 4096), "", PORTABLE),
    ],
)
def test_region_chooses_the_kernel(extents, mask, called):
    with ir.Context():
        program = planned(extents, mask).program
        source = program.source
        before = planned(extents, mask).before
        assert called in (source if before is None else before.program.source)
        assert ("gluon" in source) == ("sm90" in called)


def test_kernels_for_hopper_need_hopper_and_gluon(monkeypatch):
    extents = (2, 3, 1, 197, 64, 64, 197)
    monkeypatch.setattr(triton_compiler, "has_gluon", lambda: True)
    with ir.Context():
        other = targets.parse("cuda:sm_80")
        assert "sm90" not in planned(extents, target=other).program.source
        monkeypatch.setattr(triton_compiler, "has_gluon", lambda: False)
        assert "sm90" not in planned(extents).program.source


@pytest.mark.usefixtures("gluon")
def test_strides_and_offsets_of_heads():
    with ir.Context():
        full = planned((2, 3, 1, 128, 64, 64, 192), "causal").program.source
        shared = planned((2, 3, 2, 256, 128, 128, 384)).program.source
        tail = planned((2, 3, 1, 100, 64, 64, 192), "causal").program.source
    assert "y0, (6, 128, 192), head_offsets, " in full
    assert "q_stride=64, k_stride=64, v_stride=64, y_stride=64, block_n=64, head_size=64, " in full
    assert "query_tail=False, key_tail=False, wide_offsets=False, causal=True, " in full
    assert "query_tail=True, key_tail=False, wide_offsets=False, causal=True, " in tail
    assert "return head * (8192), head * (12288), head * (12288), head * (8192)" in full
    assert "return head * (32768), (head // 2) * (49152), (head // 2) * (49152), " in shared


INNER_HEADS = """
#q = affine_map<(b, h, g, m, n, d, k) -> (b, m, h, g, d)>
#k = affine_map<(b, h, g, m, n, d, k) -> (b, k, h, d)>
#v = affine_map<(b, h, g, m, n, d, k) -> (b, k, h, n)>
#s = affine_map<(b, h, g, m, n, d, k) -> ()>
#i = affine_map<(b, h, g, m, n, d, k) -> (m, k)>
#o = affine_map<(b, h, g, m, n, d, k) -> (b, m, h, g, n)>
#id = affine_map<(m, k) -> (m, k)>
!q = tensor<2xQx8x4x128xf16>
!k = tensor<2xQx8x128xf16>
util.func @main(%q: !q, %k: !k, %v: !k DIM) -> !q {
  %scale = arith.constant 0.125 : f32
  %y = flow.dispatch.region -> (!q SIZE) {
    %e = tensor.empty(EACH) : tensor<QxQxi1>
    %mask = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel"]}
        outs(%e : tensor<QxQxi1>) {
    ^bb0(%out: i1):
      %i = linalg.index 0 : index
      %j = linalg.index 1 : index
      %r = arith.cmpi sge, %i, %j : index
      linalg.yield %r : i1
    } -> tensor<QxQxi1>
    %f = tensor.empty(ONE) : !q
    %o = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #i, #o]>
        ins(%q, %k, %v, %scale, %mask : !q, !k, !k, f32, tensor<QxQxi1>) outs(%f : !q) {
    ^bb0(%x: f32):
      iree_linalg_ext.yield %x : f32
    } -> !q
    flow.return %o : !q
  }
  util.return %y : !q
}"""


@pytest.mark.usefixtures("gluon")
@pytest.mark.parametrize("queries", ["1024", "?"])
def test_queries_before_the_heads_that_share_keys(queries):
    """As models that split a projection into heads have them: causal, query heads are batches."""
    dynamic = queries == "?"
    text = INNER_HEADS.replace("Q", queries).replace("DIM", ", %n: index" if dynamic else "")
    text = text.replace("SIZE", "{%n}" if dynamic else "").replace("ONE", "%n" if dynamic else "")
    with ir.Context():
        module = ir.Module.parse(text.replace("EACH", "%n, %n" if dynamic else ""))
        (region,) = kernel_search.regions(module)
        source = ATTENTION.plan(region, HOPPER).program.source
    assert WARP_SPECIALIZED in source
    sizes = "query_size, key_size" if dynamic else "1024, 1024"
    strides = "q_stride=4096, k_stride=1024, v_stride=1024, y_stride=4096"
    spec = f"attention_softmax_sm90.attention_spec({strides}, block_n=128, head_size=128, "
    assert f"(64, {sizes}), head_offsets, {spec}" in source
    assert "(head % 32) * (128)" in source


@pytest.mark.usefixtures("gluon")
@pytest.mark.parametrize(
    ("extents", "num_ctas"),
    [
        ((2, 3, 2, 256, 128, 128, 384), 24),
        ((2, 8, 4, 1024, 128, 128, 1024), 132),
        ((2, 8, 4, 1000, 128, 128, 1024), 132),
        ((2, 8, 4, 300, 128, 128, 1024), 320),
        ((2, 8, 4, 1000, 64, 64, 1024), 1024),
    ],
)
def test_warp_specialized_kernels_are_persistent(extents, num_ctas):
    """At most one CTA for each SM; those of other kernels have one tile each."""
    with ir.Context():
        grid = planned(extents).grid
    assert [extent.count(()) for extent in grid] == [num_ctas, 1, 1]


@pytest.mark.usefixtures("gluon")
def test_measured_config_chooses_the_kernel():
    problem = AttentionProblem(256, 256, 128, 6).to_dict()
    configs = {
        AttentionConfig(128, 128, 8, 2, kernel=WARP_SPECIALIZED_SM90): WARP_SPECIALIZED,
        AttentionConfig(64, 64, 4, 2, kernel=OVERLAPPED_SM90): OVERLAPPED,
        AttentionConfig(64, 64, 4, 2): PORTABLE,
    }
    with ir.Context():
        for config, called in configs.items():
            measured = (MeasuredConfig("attention", problem, config.to_dict(), 1.0),)
            target = dataclasses.replace(HOPPER, measured=measured)
            assert called in planned((2, 3, 1, 256, 128, 128, 256), target=target).program.source


@needs_triton
@pytest.mark.parametrize(
    ("extents", "mask", "dtype", "threads"),
    [
        ((1, 2, 1, 200, 64, 64, 200), "causal", "bf16", 128),
        ((1, 2, 1, 512, 128, 128, 512), "causal", "f16", 384),
    ],
)
def test_object_code(extents, mask, dtype, threads):
    if not triton_compiler.has_gluon():
        pytest.skip("this Triton has an older Gluon")
    configs = {
        128: AttentionConfig(64, 64, 4, 2, kernel=OVERLAPPED_SM90),
        384: AttentionConfig(128, 128, 8, 2, kernel=WARP_SPECIALIZED_SM90),
    }
    with ir.Context():
        kernel = triton_compiler.build(
            planned(extents, mask, dtype, config=configs[threads]).program, "sm_90"
        )
    text = kernel.code.decode()
    assert ".target sm_90a" in text
    assert "wgmma.mma_async" in text
    assert ("setmaxnreg" in text) == (threads == 384)
    assert kernel.workgroup_size == (threads, 1, 1)
    if threads == 128:
        return
    # Code remains after a branch: the softmax ends before the wait for its matmuls.
    waits = text.split("wgmma.wait_group.sync.aligned 0;")[:-1]
    softmaxes = [wait for wait in waits if "ex2.approx" in wait]
    assert softmaxes
    assert all("bra" in softmax.split("ex2.approx")[-1] for softmax in softmaxes)
