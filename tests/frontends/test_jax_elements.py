"""Repairs of StableHLO by element type; loops that carry too much, gathers out of bounds."""

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
from jax import lax

import mlirfuse
from helpers.jax_programs import check


def test_unsigned_integers():
    u = np.array([200, 3, 7, 255, 3], np.uint8)
    w = np.array([[4000000000, 2], [1, 5]], np.uint32)

    def function(u, w):
        return (
            jnp.flip(u),
            jnp.cumprod(u),
            lax.cummax(u),
            jnp.sort(u),
            jnp.pad(u, 2, constant_values=250),
            lax.associative_scan(jnp.add, u),
            jnp.max(w),
            w // 3,
            u.astype(jnp.float32),
            lax.dynamic_slice(jnp.arange(256, dtype=jnp.uint8), (u[0],), (3,)),
            lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] * 3), (jnp.uint8(0), u)),
        )

    check(function, u, w)


def test_complex_numbers():
    rng = np.random.default_rng(0)
    z = (rng.standard_normal(6) + 1j * rng.standard_normal(6)).astype(np.complex64)
    inf = np.inf
    w = np.array([0, 1, inf, complex(1, inf), 2, 0], np.complex64)

    def function(z, w):
        m = z.reshape(2, 3)
        return (
            jnp.diag(m),
            jnp.where(z.real > 0, -1, jnp.where(z.imag > 0, 1, z)),
            jnp.poly(z[:3]),
            m @ m.T,
            jnp.cumprod(z),
            jnp.sort(z),
            lax.fori_loop(0, 20, lambda i, c: (c[0] * z, c[1] + 1.0), (z, 1.0)),
            lax.cond(z[0].real > 0, lambda: z, lambda: z * 2),
            1 / w,
            z / w,
            z == z[::-1],
            z.real.astype(jnp.complex64),
            jnp.array([1 + 2j, 3.0, 4j], jnp.complex64) * 2,
            jnp.full(300, 1 + 2j) + jnp.arange(300),
            z.at[jnp.array([1, 1])].add(2j),
            jnp.tanh(z),
            lax.reduce_window(m, 0j, lax.add, (1, 2), (1, 1), "VALID"),
            lax.reduce_window(m, 1 + 0j, lax.mul, (1, 2), (1, 1), "VALID"),
        )

    check(function, z, w)


def test_gathers_of_indices_out_of_bounds():
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    i = np.array([0, -1, 70000, -3, 3], np.int32)

    def function(x, i):
        return (
            jnp.take(x, i, 0, mode="clip"),
            jnp.take(x, i, 1, mode="clip"),
            jnp.take(x[0], i.astype(jnp.uint8), mode="clip"),
            jnp.take(x[0], i),
            x[i, i],
        )

    check(function, x, i)


def test_contractions_of_truth_values():
    b = np.random.default_rng(0).random((3, 4, 5)) < 0.5

    def function(b):
        return (
            jnp.matmul(b, b.transpose(0, 2, 1)),
            jnp.matmul(b[0, 0], b[0].T),
            jnp.fft.rfft(b[0]),
            jnp.fft.ihfft(b[0, 0]),
        )

    check(function, b)


def test_depthwise_convolution_of_half_precision():
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s).astype(np.float16) for s in ((2, 4, 7, 7), (4, 1, 3, 3)))

    def function(x, w):
        return lax.conv_general_dilated(x, w, (1, 1), "SAME", feature_group_count=4)

    check(function, x, w, tolerance=1e-2)


def test_angles_of_half_precision():
    y = np.array([-1.8, 2.5, -0.0, 3, 0], np.float16)
    x = np.array([-np.inf, -np.inf, -1, np.inf, -np.inf], np.float16)
    check(lax.atan2, y, x, tolerance=2e-3)


def test_loops_with_values_that_nothing_reads():
    """IREE 3.13 crashes on them: an error that is only compared, and a sum that is dropped."""

    def function(x):
        def step(state):
            y, _, total = state
            new = 0.5 * (y + x / y)
            return new, jnp.max(jnp.abs(new - y)), total + new

        found, _, _ = lax.while_loop(lambda s: s[1] > 1e-4, step, (x, jnp.float32(1), x))
        return found, jnp.linalg.svd(jnp.diag(x), compute_uv=False)

    check(function, np.array([4.0, 2.0, 9.0], np.float32))


def test_functions_of_float64():
    inf = np.inf
    special = [0.0, -0.0, inf, -inf, np.nan, 1e-300, 2.0**31, 2.0**53, -1e22, 1.7e308]
    x = np.array([*np.random.default_rng(0).standard_normal(20) * 1e3, *special])
    y = np.roll(x, 1)

    def function(x, y):
        complex_numbers = lax.complex(x[:5] / 1e3, y[:5] / 1e3)
        return (
            *(f(x) for f in (jnp.sin, jnp.cos, jnp.tan, jnp.tanh, jnp.cbrt, jnp.arctan)),
            *(jnp.arctan2(x, y), jnp.fmod(x[:25], y[:25])),
            *(f(complex_numbers) for f in (jnp.exp, jnp.tanh, jnp.expm1)),
            *(complex_numbers ** complex_numbers[::-1], complex_numbers * 2.0 + 1, jnp.full(3, 1j)),
        )

    with jax.enable_x64(True):
        exported = jax.export.export(jax.jit(function), platforms=["cpu"])(x, y)
        expected = function(*map(jnp.asarray, (x, y)))
    for ours, theirs in zip(mlirfuse.compile(exported)(x, y), expected, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=1e-13, atol=1e-13)


def test_unsigned_integers_beside_complex_constants():
    from iree.compiler import ir

    from mlirfuse.frontends.jax_repairs.signs import strip_signs

    with ir.Context():
        module = ir.Module.parse("""
            func.func @main() -> (tensor<complex<f32>>, tensor<2xui8>) {
              %0 = stablehlo.constant dense<(1.0, 0.0)> : tensor<complex<f32>>
              %1 = stablehlo.constant dense<[3, 200]> : tensor<2xui8>
              return %0, %1 : tensor<complex<f32>>, tensor<2xui8>
            }""")
        strip_signs(module)
        assert "tensor<2xi8>" in str(module)
