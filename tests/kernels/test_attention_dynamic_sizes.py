"""Attention kernels of dynamic sizes: planned, interpreted against float64, and built."""

import numpy as np
import pytest
from iree.compiler import ir

from helpers.attention_text import B, G, H, K, M, attention_reference, write
from helpers.kernel_runner import KERNEL_PASSES, close, draw, needs_triton, run
from mlirfuse import targets
from mlirfuse.compilation import open_model
from mlirfuse.core import NoMatch, Reason
from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.attention import split_kv
from mlirfuse.kernels.attention.family import ATTENTION
from mlirfuse.kernels.attention.problem import (
    OVERLAPPED_SM90,
    WARP_SPECIALIZED_SM90,
    AttentionConfig,
)
from mlirfuse.options import FusionOptions
from mlirfuse.pipelines import engine
from mlirfuse.tuning import kernel_search

HOPPER = targets.parse("cuda:sm_90")
OVERLAPPED = "attention_overlapped_sm90.attention("
WARP_SPECIALIZED = "attention_warp_specialized_sm90.attention("
PORTABLE = "attention.online_softmax_step("
SPLIT = "attention.keys_per_split("


@pytest.fixture(autouse=True)
def provider(monkeypatch):
    """Plans are made as if there were a Triton to build them."""
    monkeypatch.setattr(triton_compiler, "missing", lambda: None)


def planned(extents, mask="", dynamic=(), target=HOPPER, config=None, dtype="f16"):
    """The plan of an attention, while its context lives."""
    text, _ = write("main", extents, dtype=dtype, mask=mask, dynamic=dynamic)
    options = FusionOptions(enable_feature=("kernels",), disable_pass=KERNEL_PASSES)
    grouped, _ = engine.run(ir.Module.parse(text), target=target, options=options)
    (region,) = kernel_search.regions(grouped)
    return ATTENTION.plan(region, target, config)


def masks(mask, b, m, k, seed=5):
    """The arguments of a mask, and its addend to the scores."""
    zeros = np.zeros((b, m, k))
    if mask == "causal":
        return [], np.where(np.arange(k) <= np.arange(m)[:, None], zeros, -np.inf)
    if mask == "bias":
        bias = draw((b, m, k), "f16", seed)
        return [bias], bias.astype(np.float64)
    if mask:
        keep = np.random.default_rng(seed).random((b, m, k)) < 0.6
        return [keep.astype(np.int8)], np.where(keep, 0.0, -np.inf)
    return [], zeros


@needs_triton
@pytest.mark.parametrize(
    ("written", "mask", "dynamic", "calls"),
    [
        # Loops: batch, KV heads, query heads of each, queries, head sizes of v and q, keys.
        ((2, 3, 1, 64, 32, 32, 64), "causal", (B, M, K), [(1, 7, 7), (2, 130, 130), (1, 70, 9)]),
        ((2, 2, 2, 64, 16, 24, 64), "boolean", (B, M, K), [(1, 64, 64), (3, 65, 19)]),
        ((2, 2, 1, 64, 32, 32, 64), "bias", (M, K), [(2, 1, 1), (2, 17, 65)]),
        ((2, 2, 1, 5, 32, 32, 70), "", (B,), [(1, 5, 70), (3, 5, 70)]),
        ((2, 2, 2, 64, 16, 16, 50), "", (M,), [(2, 37, 50)]),
        ((2, 2, 2, 1, 32, 32, 64), "", (B, K), [(1, 1, 1061), (2, 1, 1), (1, 1, 300)]),
        ((1, 2, 1, 3, 24, 32, 64), "boolean", (K,), [(1, 3, 1300), (1, 3, 64)]),
        ((2, 2, 1, 3, 24, 32, 700), "", (B,), [(2, 3, 700), (5, 3, 700)]),
    ],
)
def test_dynamic_sizes(interpreter, written, mask, dynamic, calls):
    """One program for all calls: full and partial blocks, one split of the keys and several."""
    _, h, g, _, n, d, _ = written
    text, _ = write("main", written, dtype="f16", mask=mask, dynamic=dynamic)
    for b, m, k in calls:

        def shape(*sizes, loops):
            kept = zip(sizes, loops, strict=True)
            return tuple(s for s, x in kept if x is None or written[x] != 1)

        heads = shape(b, h, g, m, loops=(B, H, G, M))
        arrays = [draw((*heads, d), "f16", 1)]
        arrays += [draw((*shape(b, h, k, loops=(B, H, K)), w), "f16", w) for w in (d, n)]
        given, weight = masks(mask, b, m, k)
        given = [array.reshape(shape(b, m, k, loops=(B, M, K))) for array in given]
        (found,) = run(interpreter, text, "attention", [*arrays, *given], [(*heads, n)])
        wide = [x.astype(np.float64) for x in arrays]
        q, key, v = (
            wide[0].reshape(b, h, g, m, d),
            wide[1].reshape(b, h, k, d),
            wide[2].reshape(b, h, k, n),
        )
        expected = attention_reference(q, key, v, 0.25, weight[:, None, None])
        close(found, expected.reshape(found.shape), "f16")


@needs_triton
@pytest.mark.parametrize("elements", [64, 8192])
def test_more_splits_than_are_unrolled(interpreter, monkeypatch, elements):
    """They are the rows of tiles, the last of which has fewer."""
    monkeypatch.setattr(split_kv, "MAX_UNROLLED", 2)
    monkeypatch.setattr(split_kv, "MAX_TILE_ELEMENTS", elements)
    text, _ = write("main", (1, 2, 1, 3, 24, 32, 300), dtype="f16")
    arrays = [draw(shape, "f16", 1) for shape in ((2, 3, 32), (2, 300, 32), (2, 300, 24))]
    (found,) = run(interpreter, text, "attention", arrays, [(2, 3, 24)])
    q, key, v = (array.astype(np.float64)[None] for array in arrays)
    expected = attention_reference(q[:, :, None], key, v, 0.25, np.zeros((1, 1, 1, 3, 300)))
    close(found, expected.reshape(found.shape), "f16")


@needs_triton
def test_keys_per_split(interpreter):
    """Full blocks, one split where there are few keys or many tiles, never none."""
    source = "import triton\nimport triton.language as tl\n"
    source += "from mlirfuse.kernels.device import attention\n\n"
    source += "@triton.jit\ndef splits(x, y, z):\n"
    source += "    at = tl.program_id(0)\n    keys, tiles = tl.load(x + at), tl.load(y + at)\n"
    source += "    tl.store(z + at, attention.keys_per_split(keys, tiles, 264, 256, 64))\n"
    keys, tiles = [8192, 8192, 100, 8192, 0], [8, 100, 8, 300, 8]
    given = [interpreter.torch.tensor(x, dtype=interpreter.torch.int32) for x in (keys, tiles)]
    found = interpreter.torch.zeros(5, dtype=interpreter.torch.int32)
    interpreter.load(source, "splits").splits[(5,)](*given, found)
    assert found.tolist() == [256, 4096, 128, 8192, 64]


@pytest.fixture
def gluon(monkeypatch):
    monkeypatch.setattr(triton_compiler, "has_gluon", lambda: True)


@pytest.mark.usefixtures("gluon")
@pytest.mark.parametrize(
    ("extents", "mask", "dynamic", "called"),
    [
        ((2, 3, 1, 64, 64, 64, 64), "", (B, M, K), OVERLAPPED),
        ((2, 3, 1, 64, 128, 128, 64), "causal", (B, M, K), WARP_SPECIALIZED),
        ((2, 3, 2, 64, 128, 128, 300), "", (M,), WARP_SPECIALIZED),
        ((2, 3, 1, 64, 64, 64, 64), "boolean", (B, M, K), PORTABLE),
        ((2, 3, 1, 64, 96, 96, 64), "", (B, M, K), WARP_SPECIALIZED),
        ((2, 3, 1, 64, 100, 100, 64), "", (B, M, K), PORTABLE),
        ((2, 3, 1, 8, 64, 64, 64), "", (B, K), SPLIT),
    ],
)
def test_head_and_mask_choose_the_kernel(extents, mask, dynamic, called):
    with ir.Context():
        plan = planned(extents, mask, dynamic)
        assert called in "".join(step.program.source for step in plan.kernels())


def test_keys_are_not_split_for_many_queries_of_a_dynamic_batch():
    with ir.Context():
        assert planned((2, 4, 1, 197, 96, 96, 1024), "", (B,)).before is None
        assert planned((2, 4, 1, 197, 96, 96, 1024)).before is not None


@pytest.mark.usefixtures("gluon")
def test_sizes_are_arguments_and_offsets_wide():
    extents = (2, 3, 1, 64, 128, 128, 64)
    with ir.Context():
        plan = planned(extents, "causal", (B, M, K))
        source, arguments = plan.program.source, plan.program.arguments
        dims = [size.dim for size in plan.sizes]
        num_ctas = plan.grid[0].count((2, 197, 197))
        plain = planned(extents, "boolean", (B, M, K))
    sizes = [("batch_size", "i32"), ("query_size", "i32"), ("key_size", "i32")]
    assert list(arguments[-3:]) == list(plain.program.arguments[-3:]) == sizes
    assert dims == [0, 2, 2]
    # Tails of queries and keys, 64 bits; one CTA for each SM.
    assert "((batch_size * 3), query_size, key_size), head_offsets, " in source
    assert "q_stride=128, k_stride=128, v_stride=128, y_stride=128, block_n=128, " in source
    assert "head_size=128, head_elements=128, query_tail=True, key_tail=True, " in source
    assert "wide_offsets=True, causal=True" in source
    assert num_ctas == 132
    assert "head = head.to(tl.int64)" in plain.program.source
    assert "tl.arange(0, 64).to(tl.int64)" in plain.program.source
    assert plain.grid[0].count((2, 197, 197)) == 2 * 3 * -(-197 // 64)


@pytest.mark.usefixtures("gluon")
def test_dynamic_strides_take_the_portable_kernel():
    """Batches are inner to the keys: the stride of a key is dynamic."""
    text = """
    #q = affine_map<(b, m, n, d, k) -> (b, m, d)>
    #k = affine_map<(b, m, n, d, k) -> (k, b, d)>
    #v = affine_map<(b, m, n, d, k) -> (k, b, n)>
    #s = affine_map<(b, m, n, d, k) -> ()>
    #o = affine_map<(b, m, n, d, k) -> (b, m, n)>
    util.func @main(%q: tensor<?x128x64xf16>, %k: tensor<96x?x64xf16>, %v: tensor<96x?x64xf16>,
        %b: index) -> tensor<?x128x64xf16> {
      %scale = arith.constant 0.125 : f32
      %y = flow.dispatch.region -> (tensor<?x128x64xf16>{%b}) {
        %e = tensor.empty(%b) : tensor<?x128x64xf16>
        %o = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
            ins(%q, %k, %v, %scale : tensor<?x128x64xf16>, tensor<96x?x64xf16>,
                tensor<96x?x64xf16>, f32) outs(%e : tensor<?x128x64xf16>) {
        ^bb0(%x: f32):
          iree_linalg_ext.yield %x : f32
        } -> tensor<?x128x64xf16>
        flow.return %o : tensor<?x128x64xf16>
      }
      util.return %y : tensor<?x128x64xf16>
    }"""
    with ir.Context():
        module = ir.Module.parse(text)
        (region,) = kernel_search.regions(module)
        source = ATTENTION.plan(region, HOPPER).program.source
    assert "x1 + offs_n * 64 * batch_size + head * (64) + offs_d[:, None] * 1" in source


def test_only_the_first_of_the_batches_is_dynamic():
    with ir.Context():
        refused = planned((2, 3, 1, 64, 64, 64, 64), "", (H, M, K))
    assert isinstance(refused, NoMatch)
    assert refused.reason is Reason.DYNAMIC_SHAPE
    assert "only the first" in refused.detail


def test_only_static_sizes_are_measured():
    """The tuner cannot measure a kernel of dynamic sizes."""
    with ir.Context():
        assert planned((2, 3, 1, 64, 96, 96, 64), "", (M,)).problem is None
        assert planned((2, 3, 1, 64, 96, 96, 64), "").problem is not None


@needs_triton
@pytest.mark.parametrize(
    ("extents", "mask", "threads"),
    [
        ((2, 2, 1, 64, 64, 64, 64), "causal", 128),
        ((2, 2, 1, 64, 128, 128, 64), "", 384),
        ((2, 2, 2, 1, 128, 128, 64), "boolean", 128),
    ],
)
def test_object_code(extents, mask, threads):
    if not triton_compiler.has_gluon():
        pytest.skip("this Triton has an older Gluon")
    dynamic = (B, K) if extents[M] == 1 else (B, M, K)
    config = AttentionConfig(64, 64, 4, 2, kernel=OVERLAPPED_SM90)
    if threads == 384:
        config = AttentionConfig(128, 128, 8, 2, kernel=WARP_SPECIALIZED_SM90)
    with ir.Context():
        plan = planned(extents, mask, dynamic, config=config)
        kernels = [triton_compiler.build(step.program, "sm_90") for step in plan.kernels()]
    assert kernels[0].workgroup_size == (threads, 1, 1)
    for step, kernel in zip(plan.kernels(), kernels, strict=True):
        # Only the tensors and the sizes, which are 32 bits each.
        text, count = kernel.code.decode(), len(step.program.arguments)
        assert f".param .u32 attention_kernel_param_{count - 1}\n" in text
        assert f"_param_{count}" not in text


@needs_triton
def test_object_code_of_amd():
    with ir.Context():
        target = targets.parse("rocm:gfx942")
        plan = planned((2, 2, 1, 64, 64, 64, 64), "causal", (B, M, K), target)
        kernel = triton_compiler.build(plan.program, "gfx942")
    assert kernel.code.count(b"by_value") == 3


def test_attention_of_an_exported_model():
    """Any batch and number of tokens: with a mask that is an argument, and with shared KV heads."""
    torch = pytest.importorskip("torch")

    class Model(torch.nn.Module):
        def forward(self, x, keep):
            attend = torch.nn.functional.scaled_dot_product_attention
            q, k, v = (
                y.unflatten(-1, (-1, 64)).transpose(1, 2) for y in x.split((256, 128, 128), -1)
            )
            first = attend(q, k, v, is_causal=True, enable_gqa=True)
            return attend(first, first, first, attn_mask=keep[:, None, None])

    dims = {0: torch.export.Dim("batch", min=1), 1: torch.export.Dim("tokens", min=2)}
    arguments = torch.zeros(2, 9, 512, dtype=torch.float16), torch.ones(2, 9, dtype=torch.bool)
    options = FusionOptions(enable_feature=("kernels",), disable_pass=KERNEL_PASSES)
    with open_model(
        Model(), arguments, target=HOPPER, options=options, dynamic_shapes=(dims, dims)
    ) as work:
        normalized = work.normalized.read_bytes()
    with ir.Context():
        grouped, report = engine.run(ir.Module.parse(normalized), target=HOPPER, options=options)
        plans = [ATTENTION.plan(region, HOPPER) for region in kernel_search.regions(grouped)]
        sizes = [len(plan.sizes) for plan in plans if plan is not None]
    assert report.counts()["flash_attention_fusion_v1"] == 2
    assert sizes == [3, 3]
