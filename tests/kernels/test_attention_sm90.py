"""Attention kernels in Gluon: which groups get one, and that they are built."""

import dataclasses

import pytest
from iree.compiler import ir

from helpers.attention_text import write
from helpers.kernel_runner import KERNEL_PASSES, needs_triton
from mlirfuse import targets
from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.attention import planner as attention
from mlirfuse.kernels.attention.source import Tiling
from mlirfuse.options import FusionOptions
from mlirfuse.pipelines import engine
from mlirfuse.targets.base import Tuned
from mlirfuse.tuning import kernel_search

HOPPER = targets.parse("cuda:sm_90")


def planned(extents, mask="", dtype="f16", target=HOPPER, tiling=None):
    """What is planned for an attention, while its context lives."""
    text, _ = write("main", extents, dtype=dtype, mask=mask)
    options = FusionOptions(enable_feature=("kernels",), disable_pass=KERNEL_PASSES)
    grouped, _ = engine.run(ir.Module.parse(text), target=target, options=options)
    (region,) = kernel_search.regions(grouped)
    return attention.supports(region, target, tiling)


@pytest.fixture
def gluon(monkeypatch):
    monkeypatch.setattr(triton_compiler, "has_gluon", lambda: True)


@pytest.mark.usefixtures("gluon")
@pytest.mark.parametrize(
    ("extents", "mask", "called"),
    [
        # Loops: batch, heads of k, heads of q for each, queries, widths of v and q, keys.
        ((2, 3, 1, 197, 64, 64, 197), "", "attention_sm90.attention("),
        ((2, 3, 1, 197, 64, 64, 197), "causal", "attention_sm90.attention("),
        ((2, 3, 2, 256, 128, 128, 384), "", "attention_sm90.attention_with_loaders("),
        ((2, 3, 2, 130, 128, 128, 384), "", "attention_sm90.attention("),
        ((2, 3, 2, 256, 128, 128, 70), "", "attention_sm90.attention_with_loaders("),
        ((2, 3, 2, 197, 128, 128, 197), "causal", "attention_sm90.attention_with_loaders("),
        ((1, 32, 1, 64, 128, 128, 1024), "causal", "attention_sm90.attention("),
        ((2, 3, 1, 130, 128, 128, 70), "boolean", "library.attend("),
        ((2, 3, 1, 130, 128, 128, 70), "bias", "library.attend("),
        ((2, 3, 1, 130, 96, 96, 70), "", "library.attend("),
        ((2, 3, 1, 130, 64, 128, 70), "", "library.attend("),
        ((2, 3, 1, 40, 64, 64, 70), "", "library.attend("),
        ((1, 1, 1, 64, 64, 64, 4096), "", "library.attend("),
    ],
)
def test_groups_that_overlap(extents, mask, called):
    with ir.Context():
        program = planned(extents, mask).program
        source = program.source
        before = planned(extents, mask).before
        assert called in (source if before is None else before.program.source)
        assert ("gluon" in source) == ("attention_sm90" in called)


def test_groups_elsewhere_do_not_overlap(monkeypatch):
    extents = (2, 3, 1, 197, 64, 64, 197)
    monkeypatch.setattr(triton_compiler, "has_gluon", lambda: True)
    with ir.Context():
        other = targets.parse("cuda:sm_80")
        assert "attention_sm90" not in planned(extents, target=other).program.source
        monkeypatch.setattr(triton_compiler, "has_gluon", lambda: False)
        assert "attention_sm90" not in planned(extents).program.source


@pytest.mark.usefixtures("gluon")
def test_steps_and_places_are_those_of_memory():
    """Heads behind the queries: a query is three heads of 64 after the one before."""
    with ir.Context():
        source = planned((2, 3, 1, 128, 64, 64, 192), "causal").program.source
        shared = planned((2, 3, 2, 256, 128, 128, 384)).program.source
        cut = planned((2, 3, 1, 100, 64, 64, 192), "causal").program.source
    assert "y0, (6, 128, 192), starts, " in source
    assert "attention_sm90.shaped(64, 64, 64, 64, 64, 64, False, False, False, True, " in source
    assert "attention_sm90.shaped(64, 64, 64, 64, 64, 64, True, False, False, True, " in cut
    assert "return batch * (8192), batch * (12288), batch * (12288), batch * (8192)" in source
    assert "return batch * (32768), (batch // 2) * (49152), (batch // 2) * (49152), " in shared


HEADS_BEHIND = """
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
    """As models that split a projection into heads have them: causal, heads of q are batches."""
    dynamic = queries == "?"
    text = HEADS_BEHIND.replace("Q", queries).replace("DIM", ", %n: index" if dynamic else "")
    text = text.replace("SIZE", "{%n}" if dynamic else "").replace("ONE", "%n" if dynamic else "")
    with ir.Context():
        module = ir.Module.parse(text.replace("EACH", "%n, %n" if dynamic else ""))
        (region,) = kernel_search.regions(module)
        source = attention.supports(region, HOPPER).program.source
    assert "attention_sm90.attention_with_loaders(" in source
    sizes = "query_size, key_size" if dynamic else "1024, 1024"
    assert (
        f"(64, {sizes}), starts, attention_sm90.shaped(4096, 1024, 1024, 4096, 128, 128, " in source
    )
    assert "(batch % 32) * (128)" in source


@pytest.mark.usefixtures("gluon")
@pytest.mark.parametrize(
    ("extents", "workgroups"),
    [
        ((2, 3, 2, 256, 128, 128, 384), 24),
        ((2, 8, 4, 1024, 128, 128, 1024), 132),
        ((2, 8, 4, 1000, 128, 128, 1024), 132),
        ((2, 8, 4, 300, 128, 128, 1024), 320),
        ((2, 8, 4, 1000, 64, 64, 1024), 1024),
    ],
)
def test_workgroups_with_loaders_stay(extents, workgroups):
    """Not more than there are multiprocessors; others have one tile each."""
    with ir.Context():
        grid = planned(extents).grid
    assert [extent.count(()) for extent in grid] == [workgroups, 1, 1]


@pytest.mark.usefixtures("gluon")
def test_stored_tiles_choose_the_kernel():
    """Tables of five numbers are those of kernels that do not overlap."""
    extents, key = (2, 3, 1, 256, 128, 128, 256), (256, 256, 128, 6)
    found = {
        (128, 128, 8, 2, 0, 1): "attention_sm90.attention_with_loaders(",
        (64, 64, 4, 2, 0, 1): "attention_sm90.attention(",
        (64, 64, 4, 2, 0): "library.attend(",
    }
    with ir.Context():
        for numbers, called in found.items():
            tuned = (Tuned("attention", "open", key, numbers, 1.0),)
            target = dataclasses.replace(HOPPER, tuned=tuned)
            assert called in planned(extents, target=target).program.source


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
    tilings = {128: Tiling(64, 64, 4, 2, False, True), 384: Tiling(128, 128, 8, 2, False, True)}
    tiling = tilings[threads]
    with ir.Context():
        kernel = triton_compiler.build(
            planned(extents, mask, dtype, tiling=tiling).program, "sm_90"
        )
    text = kernel.code.decode()
    assert ".target sm_90a" in text
    assert "wgmma.mma_async" in text
    assert ("setmaxnreg" in text) == (threads == 384)
    assert kernel.workgroup_size == (threads, 1, 1)
    if threads == 128:
        return
    # What follows a branch stays there: the softmax ends before its products are waited for.
    waits = text.split("wgmma.wait_group.sync.aligned 0;")[:-1]
    softmaxes = [wait for wait in waits if "ex2.approx" in wait]
    assert softmaxes
    assert all("bra" in softmax.split("ex2.approx")[-1] for softmax in softmaxes)
