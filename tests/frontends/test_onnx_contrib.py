"""Operators of ONNX Runtime's domain, compiled for the CPU, against their definitions in numpy."""

import math

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import mlirfuse
from helpers.onnx_text import saved
from mlirfuse.core import ImportFailedError
from mlirfuse.frontends import import_model

erf = np.vectorize(math.erf)


def floats(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def codes(dtype, *shape, seed=0):
    limits = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(limits.min, limits.max, shape).astype(dtype)


def results_of(text, folder, arguments, *, opset=17, **constants):
    """The results of a program of the compiled model; constants become initializers."""
    _, path = saved(
        text, folder, opset=opset, ir_version=8, domains={"com.microsoft": 1}, **constants
    )
    results = mlirfuse.compile(path, tuple(arguments), target="cpu")(*arguments)
    return results if isinstance(results, tuple) else (results,)


def check(results, expected, tolerance=2e-5):
    for index, (got, wanted) in enumerate(zip(results, expected, strict=True)):
        wanted = wanted if wanted.dtype.kind in "iu" else wanted.astype(np.float32)
        assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape), index
        if wanted.dtype.kind in "iu":  # a number between two codes may be rounded to either
            assert np.abs(got.astype(int) - wanted.astype(int)).max() <= 1, index
        else:
            scale = np.abs(wanted).max()
            np.testing.assert_allclose(got, wanted, tolerance, tolerance * scale, err_msg=index)


def gelu(x):
    return (x * (erf(x / math.sqrt(2)) + 1) / 2).astype(np.float32)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def normal(x, epsilon=1e-5):
    centered = x - x.mean(-1, keepdims=True)
    return centered / np.sqrt((centered**2).mean(-1, keepdims=True) + epsilon)


def rms(x, epsilon=1e-5):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon)


def test_activations_and_contractions(tmp_path):
    x, bias, w = floats(2, 5, 8), floats(8, seed=1), floats(2, 7, 8, seed=2)
    image, kernel = floats(1, 3, 6, 6, seed=3), floats(4, 3, 1, 1, seed=4)
    rest = floats(1, 4, 6, 6, seed=5)
    results = results_of(
        """net (float[2,5,8] x, float[1,3,6,6] image, float[1,4,6,6] rest)
               => (float[2,5,8] a, float[2,5,8] b, float[2,5,8] c, float[2,5,7] d,
                   float[1,4,6,6] e, float[10,7] f, float[2,5,4] h) {
          a = com.microsoft.BiasGelu(x, bias)
          b = com.microsoft.FastGelu(x, bias)
          c = com.microsoft.QuickGelu<alpha=1.5>(x)
          d = com.microsoft.FusedMatMul<transB=1, alpha=0.25>(x, w)
          e = com.microsoft.FusedConv<activation="Clip", activation_params=[-0.5, 0.5]>
              (image, kernel, , rest)
          rows = Reshape(x, flat)
          f = com.microsoft.FusedGemm<transB=1, alpha=2.0, activation="LeakyRelu",
              activation_alpha=0.1>(rows, v, small)
          h = com.microsoft.BiasSplitGelu(x, bias)
        }""",
        tmp_path,
        [x, image, rest],
        bias=bias,
        w=w,
        kernel=kernel,
        flat=np.array([10, 8]),
        v=w[0],
        small=bias[:7],
    )
    y = x + bias
    inner = np.sqrt(2 / np.pi) * (y + 0.044715 * y**3)
    convolved = np.einsum("nchw,fc->nfhw", image, kernel[:, :, 0, 0]) + rest
    product = 2 * x.reshape(10, 8) @ w[0].T + bias[:7]
    check(
        results,
        [
            gelu(y),
            y * (np.tanh(inner) + 1) / 2,
            x / (1 + np.exp(-np.float32(1.5) * x)),
            x @ w.transpose(0, 2, 1) / 4,
            convolved.clip(-0.5, 0.5),
            np.where(product > 0, product, product * np.float32(0.1)),
            y[..., :4] * gelu(y[..., 4:]),
        ],
    )


def test_norms_with_residuals_and_embeddings(tmp_path):
    x, skip, gamma, beta = (floats(2, 6, 16, seed=i) for i in range(4))
    gamma, beta = gamma[0, 0], beta[0, 0]
    words, positions, kinds = floats(20, 16, seed=5), floats(9, 16, seed=6), floats(2, 16, seed=7)
    ids = np.random.default_rng(0).integers(0, 20, (2, 6)).astype(np.int32)
    segments, mask = ids % 2, np.array([[1] * 4 + [0] * 2, [1] * 6], np.int32)
    quantized = codes(np.uint8, 20, 16)
    results = results_of(
        """net (float[2,6,16] x, float[2,6,16] skip, int32[2,6] ids, int32[2,6] segments,
                int32[2,6] mask)
               => (float[2,6,16] a, float[2,6,16] s, float[2,6,16] b, float[2,6,16] t,
                   float[2,6,16] c, float[2,6,16] e, int32[2] lengths, float[2,6,16] q,
                   float[2,4,4,6] g) {
          a, m, v, s = com.microsoft.SkipLayerNormalization<epsilon=1e-5>
              (x, skip, gamma, beta, beta)
          b, n, r, t = com.microsoft.SkipSimplifiedLayerNormalization<epsilon=1e-5>(x, skip, gamma)
          c = SimplifiedLayerNormalization<epsilon=1e-5>(x, gamma)
          e, lengths = com.microsoft.EmbedLayerNormalization<epsilon=1e-5>
              (ids, segments, words, positions, kinds, gamma, beta, mask)
          q, none = com.microsoft.QEmbedLayerNormalization<epsilon=1e-5>
              (ids, segments, quantized, quantized, quantized, codes, codes, mask,
               scale, scale, scale, scale, scale, zero, zero, zero, zero, zero)
          image = Reshape(x, shape)
          g = com.microsoft.GroupNorm<groups=3, activation=1, epsilon=1e-5>(image, six, six)
        }""",
        tmp_path,
        [x, skip, ids, segments, mask],
        gamma=gamma,
        beta=beta,
        words=words,
        positions=positions,
        kinds=kinds,
        quantized=quantized,
        codes=quantized[0],
        scale=np.float32(0.01),
        zero=np.uint8(100),
        shape=np.array([2, 4, 4, 6]),
        six=gamma[:6],
    )
    embedded = words[ids] + positions[np.arange(6)] + kinds[segments]
    table = ((quantized.astype(np.float32) - 100) * np.float32(0.01)).astype(np.float32)
    rows = table[ids] + table[np.arange(6)] + table[segments]
    groups = x.reshape(2, 16, 3, 2).transpose(0, 2, 1, 3).reshape(2, 3, 32)
    image = normal(groups).reshape(2, 3, 16, 2).transpose(0, 2, 1, 3).reshape(2, 4, 4, 6)
    image = image * gamma[:6] + gamma[:6]
    check(
        results,
        [
            normal(x + skip + beta) * gamma + beta,
            x + skip + beta,
            rms(x + skip) * gamma,
            x + skip,
            rms(x) * gamma,
            normal(embedded) * gamma + beta,
            np.array([4, 6], np.int32),
            normal(rows) * table[0] + table[0],
            image / (1 + np.exp(-image)),
        ],
    )


def heads_of(x, count):
    batch, tokens, width = x.shape
    return x.reshape(batch, tokens, count, width // count).transpose(0, 2, 1, 3)


def attended(q, k, v, seen=None, bias=0.0):
    scores = q @ k.transpose(0, 1, 3, 2) / np.float32(math.sqrt(q.shape[-1])) + bias
    if seen is not None:
        scores = np.where(seen, scores, np.float32(-1e30))
    out = softmax(scores) @ v
    return out.transpose(0, 2, 1, 3).reshape(len(q), q.shape[2], -1).astype(np.float32)


def rotated(x, places, *, interleaved=False):
    """Rotary positions of heads, and the tables of cosines and sines."""
    pairs = x.shape[-1] // 2
    angles = np.arange(32)[:, None] / 100.0 ** (np.arange(pairs) / pairs)
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    c, s = cos[places], sin[places]
    if interleaved:
        a, b = x[..., ::2], x[..., 1::2]
        out = np.stack([a * c - b * s, b * c + a * s], -1).reshape(x.shape)
    else:
        a, b = x[..., :pairs], x[..., pairs:]
        out = np.concatenate([a * c - b * s, b * c + a * s], -1)
    return out, cos, sin


def test_attention_with_masks_and_caches(tmp_path):
    x, w, b = floats(2, 5, 32), floats(32, 96, seed=1) / 5, floats(96, seed=2)
    lengths = np.array([3, 5], np.int32)
    q, k, v = (floats(2, 5, 32, seed=i) for i in (3, 4, 5))
    past_k, past_v, bias = (
        floats(2, 4, 3, 8, seed=6),
        floats(2, 4, 3, 8),
        floats(1, 4, 5, 8, seed=7),
    )
    results = results_of(
        """net (float[2,5,32] x, int32[2] lengths, float[2,5,32] q, float[2,5,32] k,
                float[2,5,32] v, float[2,4,3,8] pk, float[2,4,3,8] pv, float[1,4,5,8] bias)
               => (float[2,5,32] a, float[2,5,32] c, float[2,2,4,5,8] present, float[2,5,32] m,
                   float[2,4,8,8] mk, float[2,4,8,8] mv, float[2,5,32] p) {
          a = com.microsoft.Attention<num_heads=4>(x, w, b, lengths)
          c, present = com.microsoft.Attention<num_heads=4, unidirectional=1>(x, w, b)
          m, mk, mv = com.microsoft.MultiHeadAttention<num_heads=4>(q, k, v, b, , bias, pk, pv)
          packed = Reshape(xw, shape)
          xw = MatMul(x, w)
          p = com.microsoft.MultiHeadAttention<num_heads=4>(packed)
        }""".replace(
            "packed = Reshape(xw, shape)\n          xw = MatMul(x, w)",
            "xw = MatMul(x, w)\n          packed = Reshape(xw, shape)",
        ),
        tmp_path,
        [x, lengths, q, k, v, past_k, past_v, bias],
        w=w,
        b=b,
        shape=np.array([2, 5, 4, 3, 8]),
    )
    aq, ak, av = (heads_of(part, 4) for part in np.split(x @ w + b, 3, -1))
    seen = np.arange(5) < lengths[:, None, None, None]
    causal = np.tril(np.ones((5, 5), bool))
    mq, mk, mv = (heads_of(t + part, 4) for t, part in zip((q, k, v), np.split(b, 3), strict=True))
    mk, mv = np.concatenate([past_k, mk], 2), np.concatenate([past_v, mv], 2)
    packed = (x @ w).reshape(2, 5, 4, 3, 8).transpose(3, 0, 2, 1, 4)
    check(
        results,
        [
            attended(aq, ak, av, seen),
            attended(aq, ak, av, causal),
            np.stack([ak, av]),
            attended(mq, mk, mv, bias=bias),
            mk,
            mv,
            attended(*packed),
        ],
    )


def test_grouped_queries_with_rotary_positions(tmp_path):
    q, k, v = floats(2, 1, 64), floats(2, 1, 32, seed=1), floats(2, 1, 32, seed=2)
    past_k, past_v = floats(2, 2, 6, 16, seed=3), floats(2, 2, 6, 16, seed=4)
    x, places = floats(2, 5, 64, seed=5), np.array([[0, 1, 2, 3, 4], [3, 4, 5, 6, 7]])
    turned, cos, sin = rotated(heads_of(q, 4), np.array([6]))
    results = results_of(
        """net (float[2,1,64] q, float[2,1,32] k, float[2,1,32] v, float[2,2,6,16] pk,
                float[2,2,6,16] pv, int32[2] last, float[2,5,64] x, int64[2,5] places)
               => (float[2,1,64] y, float[2,2,7,16] nk, float[2,2,7,16] nv, float[2,5,64] r) {
          y, nk, nv = com.microsoft.GroupQueryAttention
              <num_heads=4, kv_num_heads=2, do_rotary=1, local_window_size=4>
              (q, k, v, pk, pv, last, total, cos, sin)
          r = com.microsoft.RotaryEmbedding<interleaved=1>(x, places, cos, sin)
        }""",
        tmp_path,
        [q, k, v, past_k, past_v, np.array([6, 6], np.int32), x, places],
        total=np.array(7, np.int32),
        cos=cos,
        sin=sin,
    )
    keys = np.concatenate([past_k, rotated(heads_of(k, 2), np.array([6]))[0]], 2)
    values = np.concatenate([past_v, heads_of(v, 2)], 2)
    window = np.arange(7) > 6 - 4
    wide = attended(turned, keys.repeat(2, 1), values.repeat(2, 1), window)
    inter = rotated(heads_of(x, 4), places[:, None], interleaved=True)[0]
    check(results, [wide, keys, values, inter.transpose(0, 2, 1, 3).reshape(2, 5, 64)])


def quantized(x, scale, zero):
    return (np.round(x / np.float32(scale)) + zero).clip(0, 255).astype(np.uint8)


def test_products_of_bytes(tmp_path):
    a, b, bias = codes(np.uint8, 5, 16), codes(np.int8, 16, 12, seed=1), floats(12)
    x, packed = floats(3, 64, seed=2), codes(np.uint8, 24, 2, 16, seed=3)
    scales, zeros = np.abs(floats(48, seed=4)), codes(np.uint8, 24, seed=5)
    steps = floats(6, 2, 12, seed=6)
    weight, recurrence = codes(np.int8, 1, 12, 32, seed=7), codes(np.int8, 1, 8, 32, seed=8)
    results = results_of(
        """net (uint8[5,16] a, float[3,64] x, float[3,16] f, float[6,2,12] steps)
               => (float[5,12] m, float[3,12] d, float[3,24] n, uint8[5,12] g,
                   float[6,1,2,8] h) {
          m = com.microsoft.MatMulIntegerToFloat(a, b, sa, sb, za, zb, bias)
          d = com.microsoft.DynamicQuantizeMatMul(f, b, sb, zb, bias)
          n = com.microsoft.MatMulNBits<K=64, N=24, bits=4, block_size=32>(x, packed, scales, zeros)
          g = com.microsoft.QGemm(a, sa, za, b, sb, zero8, ibias, sg, zg)
          h = com.microsoft.DynamicQuantizeLSTM<hidden_size=8>
              (steps, weight, recurrence, , , , , , one, nought, one, nought)
        }""",
        tmp_path,
        [a, x, floats(3, 16, seed=9), steps],
        b=b,
        sa=np.float32(0.1),
        sb=np.float32(0.02),
        za=np.uint8(100),
        zb=np.int8(3),
        zero8=np.int8(0),
        bias=bias,
        packed=packed,
        scales=scales,
        zeros=zeros,
        ibias=np.arange(12, dtype=np.int32) * 50,
        sg=np.float32(0.3),
        zg=np.uint8(120),
        weight=weight,
        recurrence=recurrence,
        one=np.array([0.01], np.float32),
        nought=np.array([2], np.int8),
    )
    left, right = a.astype(np.float32) - 100, b.astype(np.float32)
    f = floats(3, 16, seed=9)
    step = (max(f.max(), 0) - min(f.min(), 0)) / np.float32(255)
    zero = np.round(-min(f.min(), 0) / step)
    rounded = (np.round(f / step) + zero).clip(0, 255) - zero
    fours = np.stack([packed & 15, packed >> 4], -1).reshape(24, 2, 32).astype(np.float32)
    offsets = np.stack([zeros & 15, zeros >> 4], -1).reshape(24, 2, 1)
    unpacked = ((fours - offsets) * scales.reshape(24, 2, 1)).reshape(24, 64).astype(np.float32)
    gemm = left @ right * np.float32(0.002) + np.arange(12) * np.float32(0.1)
    check(
        results[:4],
        [
            left @ (right - 3) * np.float32(0.002) + bias,
            rounded @ (right - 3) * step * np.float32(0.02) + bias,
            x @ unpacked.T,
            quantized(gemm, 0.3, 120),
        ],
    )
    w, r = ((c[0].astype(np.float32) - 2) * np.float32(0.01) for c in (weight, recurrence))
    h, c, hidden = np.zeros((2, 8), np.float32), np.zeros((2, 8), np.float32), []
    for now in steps:
        i, o, keep, cell = np.split(now @ w + h @ r, 4, -1)
        i, o, keep = (1 / (1 + np.exp(-gate)) for gate in (i, o, keep))
        c = keep * c + i * np.tanh(cell)
        h = o * np.tanh(c)
        hidden.append(h[None])
    check(results[4:], [np.stack(hidden).astype(np.float32)])


def test_operators_on_quantized_tensors(tmp_path):
    a, b = codes(np.uint8, 2, 3, 8, 8), codes(np.uint8, 2, 3, 8, 8, seed=1)
    results = results_of(
        """net (uint8[2,3,8,8] a, uint8[2,3,8,8] b)
               => (uint8[2,3,8,8] s, uint8[2,3,8,8] p, uint8[2,3,8,8] g, uint8[2,6,8,8] c,
                   uint8[2,3,1,1] m, uint8[2,3,8,8] x) {
          s = com.microsoft.QLinearAdd(a, sa, za, b, sb, zb, sy, zy)
          p = com.microsoft.QLinearMul(a, sa, za, b, sb, zb, sy, zy)
          g = com.microsoft.QLinearSigmoid(a, sa, za, sp, zp)
          c = com.microsoft.QLinearConcat<axis=1>(sy, zy, a, sa, za, b, sb, zb)
          m = com.microsoft.QLinearGlobalAveragePool(a, sa, za, sb, zb)
          x = com.microsoft.QLinearSoftmax<axis=-1, opset=13>(a, sa, za, sp, zp)
        }""",
        tmp_path,
        [a, b],
        sa=np.float32(0.03),
        za=np.uint8(120),
        sb=np.float32(0.02),
        zb=np.uint8(90),
        sy=np.float32(0.05),
        zy=np.uint8(110),
        sp=np.float32(1 / 256),
        zp=np.uint8(0),
    )
    x = (a.astype(np.float32) - 120) * np.float32(0.03)
    y = (b.astype(np.float32) - 90) * np.float32(0.02)
    check(
        results,
        [
            quantized(x + y, 0.05, 110),
            quantized(x * y, 0.05, 110),
            quantized(1 / (1 + np.exp(-x)), 1 / 256, 0),
            quantized(np.concatenate([x, y], 1), 0.05, 110),
            quantized(x.mean((2, 3), keepdims=True), 0.02, 90),
            quantized(softmax(x), 1 / 256, 0),
        ],
    )


def test_attention_of_bytes(tmp_path):
    x, w, b = codes(np.uint8, 2, 5, 32), codes(np.int8, 32, 96, seed=1), floats(96)
    mask = np.array([[1, 1, 1, 0, 0], [1] * 5], np.int32)
    results = results_of(
        """net (uint8[2,5,32] x, int32[2,5] mask) => (float[2,5,32] y) {
          y = com.microsoft.QAttention<num_heads=4>(x, w, b, sx, sw, mask, zx, zw)
        }""",
        tmp_path,
        [x, mask],
        w=w,
        b=b,
        sx=np.float32(0.02),
        sw=np.float32(0.004),
        zx=np.uint8(120),
        zw=np.int8(0),
    )
    projected = (x.astype(np.float32) - 120) @ w.astype(np.float32) * np.float32(8e-5) + b
    q, k, v = (heads_of(part, 4) for part in np.split(projected, 3, -1))
    check(results, [attended(q, k, v, mask[:, None, None] > 0)], 1e-4)


def test_an_unknown_operator_is_named(tmp_path):
    with pytest.raises(ImportFailedError, match=r"no lowering for 'com\.microsoft\.Sampling'"):
        results_of(
            "net (float[4] x) => (float[4] y) { z = com.microsoft.Sampling(x) y = Relu(z) }",
            tmp_path,
            [floats(4)],
        )


def test_initializers_that_are_no_inputs(tmp_path):
    """Format 3 wants them among the inputs; ONNX Runtime's quantizer does not write them there."""
    model = parser.parse_model(
        '<ir_version: 3, opset_import: ["": 9]> net (float[4] x) => (float[4] y) { y = Add(x, w) }'
    )
    model.graph.initializer.append(numpy_helper.from_array(floats(4), "w"))
    onnx.save(model, tmp_path / "old.onnx")
    assert [spec.shape for spec in import_model(tmp_path / "old.onnx").inputs] == [(4,)]
