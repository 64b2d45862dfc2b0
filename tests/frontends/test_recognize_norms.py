"""Norms are recognized in the ways that PyTorch, JAX and ONNX write them, on real imports.

Every variant has its own row size, which identifies its group.
"""

import jax
import jax.numpy as jnp
import onnx
import onnx.parser
import pytest
import torch
import torch.nn.functional as F

from helpers.group_sizes import passes_by_size, sizes

EPSILON = 1e-5
ROWS = 6


def fused(model, inputs=None) -> dict[int, set[str]]:
    """Size of the rows -> the passes that formed the groups whose last result has such rows."""
    return passes_by_size(model, inputs, elements_per_size=ROWS)


# --- PyTorch -------------------------------------------------------------------------------------


def torch_rms(x, gamma):
    wide = x.float()
    return gamma * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + EPSILON)).to(x.dtype)


def by_hand(x, variance):
    return (x - x.mean(-1, keepdim=True)) / torch.sqrt(variance + EPSILON)


TORCH = {
    # name: (function of x, r and gamma; element type; pass)
    "module": (lambda x, r, g: torch.nn.LayerNorm(x.shape[-1])(x), "f32", "layer_norm_fusion"),
    "functional": (
        lambda x, r, g: F.layer_norm(x, x.shape[-1:], g, g),
        "f32",
        "layer_norm_fusion",
    ),
    "functional_f16": (
        lambda x, r, g: F.layer_norm(x, x.shape[-1:], g, g),
        "f16",
        "layer_norm_fusion",
    ),
    "f32_inside": (
        lambda x, r, g: F.layer_norm(x.float(), x.shape[-1:], g.float(), g.float()).half(),
        "f16",
        "layer_norm_fusion",
    ),
    "mean_and_var": (
        lambda x, r, g: g * by_hand(x, x.var(-1, unbiased=False, keepdim=True)),
        "f32",
        "layer_norm_fusion",
    ),
    "var_mean": (
        lambda x, r, g: by_hand(x, torch.var_mean(x, -1, correction=0, keepdim=True)[0]) * g + g,
        "f32",
        "layer_norm_fusion",
    ),
    "mean_of_squares": (
        lambda x, r, g: by_hand(x, ((x - x.mean(-1, keepdim=True)) ** 2).mean(-1, keepdim=True)),
        "f32",
        "layer_norm_fusion",
    ),
    "difference_of_moments": (
        lambda x, r, g: by_hand(
            x, (x * x).mean(-1, keepdim=True) - x.mean(-1, keepdim=True).square()
        ),
        "f32",
        "layer_norm_fusion",
    ),
    "llama": (lambda x, r, g: torch_rms(x, g), "f16", "rms_norm_fusion"),
    "gemma": (lambda x, r, g: torch_rms(x, 1.0 + g), "f32", "rms_norm_fusion"),
    "rms_module": (
        lambda x, r, g: F.rms_norm(x, x.shape[-1:], g, EPSILON),
        "f32",
        "rms_norm_fusion",
    ),
    "root": (
        lambda x, r, g: x / (x.square().mean(-1, keepdim=True) + EPSILON).sqrt() * g,
        "f32",
        "rms_norm_fusion",
    ),
    "add": (
        lambda x, r, g: F.layer_norm(x + r, x.shape[-1:], g, g),
        "f32",
        "add_layer_norm_fusion",
    ),
    "add_ext": (
        lambda x, r, g: F.layer_norm(x + r, x.shape[-1:], g),
        "f32",
        "add_layer_norm_ext_fusion",
    ),
    "add_v3": (
        lambda x, r, g: F.layer_norm((x + r).reshape(2, 3, -1), (3, x.shape[-1])),
        "f32",
        "add_layer_norm_v3_fusion",
    ),
    "add_rms": (lambda x, r, g: torch_rms(x + r, g), "f32", "add_rms_norm_fusion"),
    "add_cast": (lambda x, r, g: torch_rms(x + r, g), "f16", "add_cast_rms_norm_cast_fusion"),
    "quant": (
        lambda x, r, g: (torch_rms(x, g) * 20).round().clamp(-128, 127).to(torch.int8),
        "f32",
        "rms_norm_quant_fusion",
    ),
    "add_quant": (
        lambda x, r, g: (torch_rms(x + r, g) * 20).round().clamp(-128, 127).to(torch.int8),
        "f32",
        "add_rms_norm_quant_fusion",
    ),
    "group": (
        lambda x, r, g: F.group_norm(x.reshape(1, ROWS, 1, -1), 3, g[:ROWS], g[:ROWS]),
        "f32",
        "group_norm_fusion",
    ),
    "instance": (
        lambda x, r, g: F.instance_norm(x.reshape(1, ROWS, -1), weight=g[:ROWS]),
        "f32",
        "group_norm_fusion",
    ),
}


class Variants(torch.nn.Module):
    def forward(self, *arguments):
        triples = zip(*[iter(arguments)] * 3, strict=True)
        return tuple(write(*t) for (write, _, _), t in zip(TORCH.values(), triples, strict=True))


@pytest.fixture(scope="module")
def from_torch():
    kinds = {"f32": torch.float32, "f16": torch.float16}
    arguments = []
    for (_, dtype, _), width in zip(TORCH.values(), sizes(TORCH).values(), strict=True):
        for shape in ((ROWS, width), (ROWS, width), (width,)):
            arguments.append(torch.zeros(shape, dtype=kinds[dtype]))
    return fused(Variants(), tuple(arguments))


@pytest.mark.parametrize("name", TORCH)
def test_torch(name, from_torch):
    assert from_torch.get(sizes(TORCH)[name]) == {TORCH[name][2]}


# --- JAX -----------------------------------------------------------------------------------------


def centered(x, axes=(-1,)):
    return x - jnp.mean(x, axes, keepdims=True)


def deviation(x, axes=(-1,)):
    return jax.lax.rsqrt(jnp.var(x, axes, keepdims=True) + EPSILON)


def flax_layer_norm(x, scale, bias):
    """The fast variance of flax: a difference of moments, clamped, scale times the root."""
    mean = jnp.mean(x, -1, keepdims=True)
    variance = jnp.maximum(0.0, jnp.mean(jax.lax.square(x), -1, keepdims=True) - mean * mean)
    return (x - mean) * (jax.lax.rsqrt(variance + EPSILON) * scale) + bias


def jax_rms(x, gamma):
    wide = x.astype(jnp.float32)
    square = jnp.mean(jnp.square(wide), -1, keepdims=True)
    return (wide * jax.lax.rsqrt(square + EPSILON)).astype(x.dtype) * gamma


def jax_quantized(y):
    return jnp.clip(jnp.round(y / 0.05), -128, 127).astype(jnp.int8)


def jax_group(x, gamma):
    """Channels last, as flax has them."""
    y = x.reshape(2, 3, 4, -1)
    return (centered(y, (1, 3)) * deviation(y, (1, 3))).reshape(2, 3, -1) * gamma


JAX = {
    "var": (lambda x, r, g: centered(x) * deviation(x) * g + g, "f32", "layer_norm_fusion"),
    "std": (
        lambda x, r, g: centered(x) / jnp.sqrt(jnp.var(x, -1, keepdims=True) + EPSILON),
        "f32",
        "layer_norm_fusion",
    ),
    "standardize": (
        lambda x, r, g: jax.nn.standardize(x, epsilon=EPSILON) * g,
        "f32",
        "layer_norm_fusion",
    ),
    "flax": (lambda x, r, g: flax_layer_norm(x, g, g), "f32", "layer_norm_fusion"),
    "f32_inside": (
        lambda x, r, g: flax_layer_norm(x.astype(jnp.float32), g, g).astype(x.dtype),
        "f16",
        "layer_norm_fusion",
    ),
    "rms": (lambda x, r, g: jax_rms(x, g), "f32", "rms_norm_fusion"),
    "mean_of_product": (
        lambda x, r, g: x * (jnp.mean(x * x, -1, keepdims=True) + EPSILON) ** -0.5 * (1 + g),
        "f32",
        "rms_norm_fusion",
    ),
    "add": (
        lambda x, r, g: centered(x + r) * deviation(x + r) * g + g,
        "f32",
        "add_layer_norm_fusion",
    ),
    "add_ext": (
        lambda x, r, g: centered(x + r) * deviation(x + r) + g,
        "f32",
        "add_layer_norm_ext_fusion",
    ),
    "add_rms": (lambda x, r, g: jax_rms(x + r, g), "f32", "add_rms_norm_fusion"),
    "add_cast": (lambda x, r, g: jax_rms(x + r, g), "f16", "add_cast_rms_norm_cast_fusion"),
    "quant": (lambda x, r, g: jax_quantized(jax_rms(x, g)), "f32", "rms_norm_quant_fusion"),
    "add_quant": (
        lambda x, r, g: jax_quantized(jax_rms(x + r, g)),
        "f32",
        "add_rms_norm_quant_fusion",
    ),
    "group": (lambda x, r, g: jax_group(x, g), "f32", "group_norm_fusion"),
}


@pytest.fixture(scope="module")
def from_jax():
    kinds = {"f32": jnp.float32, "f16": jnp.float16}
    arguments = [
        [jax.ShapeDtypeStruct(s, kinds[dtype]) for s in ((ROWS, width), (ROWS, width), (width,))]
        for (_, dtype, _), width in zip(JAX.values(), jax_sizes().values(), strict=True)
    ]

    def everything(*triples):
        return [write(*t) for (write, _, _), t in zip(JAX.values(), triples, strict=True)]

    return fused(everything, tuple(arguments))


def jax_sizes() -> dict[str, int]:
    return {name: 2 * width for name, width in sizes(JAX).items()}


@pytest.mark.parametrize("name", JAX)
def test_jax(name, from_jax):
    assert from_jax.get(jax_sizes()[name]) == {JAX[name][2]}


# --- ONNX ----------------------------------------------------------------------------------------

DECOMPOSED = """
  m = ReduceMean<axes=[-1]>(X) c = Sub(X, m) s = {square} v = ReduceMean<axes=[-1]>(s)
  a = Add(v, eps) d = Sqrt(a) n = Div(c, d) t = Mul(n, g) y = Add(t, b)"""
"""As `torch.onnx.export` writes it before opset 17, and older exporters of TensorFlow do."""

RMS = "s = Pow(X, two) v = ReduceMean<axes=[-1]>(s) a = Add(v, eps) d = Sqrt(a) n = Div(X, d)"

ONNX = {
    # name: (nodes from x, r, g and b to y; opset; pass)
    "layer_norm": ("y = LayerNormalization(x, g, b)", 17, "layer_norm_fusion"),
    "pow": (
        DECOMPOSED.replace("X", "x").format(square="Pow(c, two)"),
        13,
        "layer_norm_fusion",
    ),
    "mul": (DECOMPOSED.replace("X", "x").format(square="Mul(c, c)"), 11, "layer_norm_fusion"),
    "add": ("h = Add(x, r) y = LayerNormalization(h, g, b)", 17, "add_layer_norm_fusion"),
    "add_decomposed": (
        "h = Add(x, r)" + DECOMPOSED.replace("X", "h").format(square="Pow(c, two)"),
        13,
        "add_layer_norm_fusion",
    ),
    "add_ext": ("h = Add(x, r) y = LayerNormalization(h, g)", 17, "add_layer_norm_ext_fusion"),
    "rms": (RMS.replace("X", "x") + " y = Mul(n, g)", 13, "rms_norm_fusion"),
    "add_rms": (
        "h = Add(x, r)" + RMS.replace("X", "h") + " y = Mul(n, g)",
        13,
        "add_rms_norm_fusion",
    ),
    "quant": (
        RMS.replace("X", "x") + " t = Mul(n, g) y = QuantizeLinear(t, step, zero)",
        13,
        "rms_norm_quant_fusion",
    ),
    "instance": (
        "i = Reshape(x, split) t = InstanceNormalization(i, scale, shift) y = Reshape(t, back)",
        13,
        "group_norm_fusion",
    ),
}


@pytest.mark.parametrize("name", ONNX)
def test_onnx(name, tmp_path):
    nodes, opset, expected = ONNX[name]
    result = "int8" if "Quantize" in nodes else "float"
    text = f"""<ir_version: 8, opset_import: ["": {opset}]>
      net (float[{ROWS}, 48] x, float[{ROWS}, 48] r, float[48] g, float[48] b)
        => ({result}[{ROWS}, 48] y)
        <float two = {{2.0}}, float eps = {{0.00001}}, float step = {{0.05}}, int8 zero = {{3}},
         float[3] scale = {{1.0, 2.0, 3.0}}, float[3] shift = {{0.5, 1.5, 2.5}},
         int64[4] split = {{2, 3, 1, 48}}, int64[2] back = {{6, 48}}>
      {{ {nodes} }}"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "net.onnx")
    assert fused(str(tmp_path / "net.onnx")) == {48: {expected}}


# --- no norm -------------------------------------------------------------------------------------


def test_the_unbiased_variance_is_no_layer_norm():
    def sample(x):
        return by_hand(x, x.var(-1, keepdim=True))

    assert "layer_norm_fusion" not in fused(sample, (torch.zeros(4, 16),)).get(16, set())
