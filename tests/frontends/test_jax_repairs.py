"""Repairs of StableHLO: results of JAX programs against JAX, several functions in one program."""

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import mlirfuse
from helpers.jax_programs import check
from helpers.stock_program import stock_program
from mlirfuse.core import Reason
from mlirfuse.frontends import import_model


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_factorizations(rng):
    a = rng.standard_normal((4, 4)).astype(np.float32)

    def function(a):
        definite = a @ a.T + 4 * jnp.eye(4)
        return (
            jnp.linalg.cholesky(definite),
            jnp.linalg.solve(definite, a),
            jnp.abs(jnp.linalg.qr(a)[1]),
            jnp.linalg.eigvalsh(definite),
            jnp.linalg.svd(a, compute_uv=False),
        )

    check(function, a, tolerance=1e-4)


def test_groups_of_complex_quotients_by_and_of_constants_compile(rng):
    """Masks that constants decide were results of a group that IREE refuses."""
    x = (rng.standard_normal(9) + 1j * rng.standard_normal(9)).astype(np.complex64)

    def function(x):
        return lax.integer_pow(x, -2), jnp.gradient(x), 1 / x

    check(function, x, tolerance=1e-5)
    program = mlirfuse.compile(function, (x,))
    assert all(d.reason is not Reason.FELL_BACK for d in program.report.decisions)


def test_factorizations_against_jax():
    """The programs themselves, complex ones too, traced by JAX."""
    from mlirfuse.frontends.jax_repairs import eigenvalues, linear_algebra

    rng = np.random.default_rng(0)
    for kind in (np.float32, np.complex64):
        a = rng.standard_normal((5, 5)).astype(kind)
        if kind == np.complex64:
            a += 1j * rng.standard_normal((5, 5)).astype(np.float32)
        definite = a @ a.conj().T + 5 * np.eye(5, dtype=kind)
        factor = linear_algebra.cholesky(definite)
        np.testing.assert_allclose(factor @ factor.conj().T, definite, rtol=1e-4, atol=1e-4)
        both, pivots, _ = linear_algebra.lu(a)
        theirs, their_pivots, _ = lax.linalg.lu(a)
        np.testing.assert_allclose(both, theirs, rtol=1e-4, atol=1e-5)
        assert list(pivots - 1) == list(their_pivots)
        values, vectors = eigenvalues.eigh(definite)
        np.testing.assert_allclose(vectors * values @ vectors.conj().T, definite, 1e-4, 1e-4)
        tall = a[:, :3]
        u, s, vh = eigenvalues.svd(tall, full=True)
        np.testing.assert_allclose(u[:, :3] * s @ vh, tall, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(u.conj().T @ u, np.eye(5), atol=1e-5)


def test_svd_of_low_rank_has_orthonormal_vectors():
    from mlirfuse.frontends.jax_repairs import eigenvalues

    a = np.outer(np.arange(1.0, 6.0), np.arange(1.0, 5.0)).astype(np.float32)
    u, s, vh = eigenvalues.svd(a, full=False)
    np.testing.assert_allclose(u * s @ vh, a, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(u.T @ u, np.eye(4), atol=1e-5)


@pytest.mark.parametrize("size", [7, 60, 97, 128, 521])
def test_lengths_of_fourier_transforms(size):
    """Matmuls, divisible lengths and large primes."""
    from mlirfuse.frontends.jax_repairs.fourier import fft

    rng = np.random.default_rng(size)
    x = (rng.standard_normal((2, size)) + 1j * rng.standard_normal((2, size))).astype(np.complex64)
    scale = np.sqrt(size)
    found = fft(x, kind="FFT", lengths=[size])
    np.testing.assert_allclose(found, np.fft.fft(x), atol=1e-5 * scale)
    half = x[:, : size // 2 + 1]
    found = fft(half, kind="IRFFT", lengths=[size])
    np.testing.assert_allclose(found, np.fft.irfft(half, size), atol=1e-5)


def test_fourier_transforms(rng):
    x = rng.standard_normal((4, 6)).astype(np.float32)

    def function(x):
        return jnp.fft.fftn(x), jnp.fft.rfft(x), jnp.fft.irfft2(x + 1j * x), jnp.fft.ifft(x[:, 0])

    check(function, x)


def test_largest_elements_and_order_of_equal_ones():
    x = np.array([[1, np.nan, 1, 0, 1, -0.0, np.nan, -1]], np.float32)
    k = np.array([3, 1, 4000000000, 2, 1, 3, 7, 7], np.uint32)
    i = np.array([0, 1, 1, -128, 1, -128, 0, 1], np.int8)

    def function(x, k, i):
        return (
            lax.top_k(x, 5),
            lax.top_k(k, 5),
            lax.top_k(i, 7),
            lax.sort_key_val(k, jnp.arange(8)),
            lax.sort((x, x[:, ::-1]), num_keys=1),
            lax.approx_min_k(x[:, 2:6], 2),
        )

    check(function, x, k, i)


def test_two_sorts_of_the_same_indices():
    """IREE 3.13 sorts both in the same memory."""
    k = np.array([3, 1, 4000000000, 2, 5], np.uint32)
    u = np.array([7, 9], np.float32)

    def function(k, i, u):
        base = jnp.arange(6.0)
        return (
            jnp.argsort(k),
            jnp.argsort(~k),
            base.at[i].set(u),
            base.at[i + 1].set(u),
        )

    check(function, k, np.array([1, 3], np.int32), u)


def test_fixed_random_key():
    """IREE 3.13 moves the generator's loop to initialization, and each call fails."""

    def function(x):
        return x + jax.random.normal(jax.random.key(0), x.shape)

    check(function, np.ones((4, 5), np.float32))


def test_random_keys_as_arguments_and_results():
    import mlirfuse

    key = jax.random.key(3)
    program = mlirfuse.compile(lambda key: jax.random.split(key, 2), (key,))
    found, expected = program(key), jax.random.split(key, 2)
    assert found.dtype == expected.dtype
    assert (jax.random.key_data(found) == jax.random.key_data(expected)).all()


def test_scatters_outside_of_the_operand():
    """IREE 3.13 writes there."""
    x = np.arange(24, dtype=np.float32).reshape(6, 4)
    i = np.array([1, 700000, -1, 3], np.int32)
    u = -np.ones((4, 4), np.float32)
    far = np.array([100000, 900000], np.int32)

    def function(x, i, u, far):
        y = x * 2
        update = jax.vmap(lambda row, new, at: lax.dynamic_update_slice(row, new, (at,)))
        return (
            y.at[i].set(u),
            y.at[i].add(u),
            y.at[i, i].mul(3.0),
            y.at[far].set(u[:2]),
            y.at[:, i].min(0.5),
            update(y[:4], u[:, :2], i),
        )

    check(function, x, i, u, far)


@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.complex64])
def test_scatters_by_subtraction(dtype):
    """A difference of complex numbers is one of their parts; windows outside change nothing."""
    x = np.arange(24).reshape(6, 4).astype(dtype)
    u = (5 * x[:4]).astype(dtype)
    i = np.array([1, 700000, -1, 1], np.int32)

    def function(x, i, u):
        y = x * 2
        return y.at[i].subtract(u), y.at[:, i].subtract(3), y.at[i[:1]].subtract(u[:1])

    check(function, x, i, u)


def test_scatters_of_the_larger_complex_number():
    """The first parts decide, then the second ones; `unique_indices` crashes IREE for CUDA."""
    x = (np.arange(24).reshape(6, 4) * (1 + 2j)).astype(np.complex64)
    u = x[::-1][:4].copy()
    i = np.array([1, 700000, -1, -99], np.int32)

    def function(x, i, u):
        bounded = x.at[i].max(u, mode="drop"), x.at[i].min(u, mode="clip")
        return *bounded, x.at[i].max(u), x.at[i, i % 4].min(u[:, 0]), x.at[:, i].multiply(u[0])

    check(function, x, i, u)
    program = jax.jit(lambda x, i, u: x.at[i].max(u, unique_indices=True))
    mlirfuse.compile(program, (x, i, u), target="cuda:sm_90")


def test_equal_conversions_of_a_reshaped_tensor():
    """One is in a function of JAX's own, such as `jnp.cumsum`."""
    x = np.arange(20, dtype=np.int32).reshape(4, 5) % 3

    def function(x):
        flat, turned = (x > 0).reshape(20), (x > 1).T
        return (
            flat.sum(),
            jnp.cumsum(flat),
            turned.astype(jnp.int32),
            jnp.cumsum(turned, 1),
            jnp.flatnonzero(x > 1, size=8, fill_value=-1),
            jax.vmap(lambda row: jnp.unique(row, size=5, return_counts=True))(x),
        )

    check(function, x)


def test_products_without_terms():
    """IREE divides by zero."""
    x, y = np.zeros((3, 0), np.float32), np.ones((2, 3), np.float32)

    def function(x, y):
        kernel = jnp.zeros((4, 0, 2, 2))
        return (
            x @ x.T + 1,
            jnp.einsum("ij,kj->ik", x, jnp.zeros((5, 0))) + y[0][:, None],
            jnp.zeros((2, 3, 0), jnp.int8) @ jnp.zeros((2, 0, 4), jnp.int8),
            lax.conv_general_dilated(jnp.zeros((1, 0, 5, 5)), kernel, (1, 1), "SAME"),
        )

    check(function, x, y)


def test_elementwise_at_the_edges():
    inf, nan = np.inf, np.nan
    x = np.array([-2, -2, -2, 0, -0.0, inf, -inf, 1, -1, nan, 2.5, -0.5], np.float32)
    y = np.array([3, -2, 0.5, -1, 3, -1, 3, nan, inf, 0, 1.5, -3], np.float32)

    def function(x, y):
        return (
            lax.pow(x, y),
            lax.pow(x, jnp.full_like(x, 3.0)),
            x**0.5,
            x**-0.5,
            (jnp.abs(x) + 1e-5) ** -0.5,
            lax.atan2(x, y),
            lax.atan2(y * jnp.inf, x * jnp.inf),
            lax.cbrt(x),
            (x * 300).astype(jnp.uint8),
            (x * 300).astype(jnp.int8),
            (x * 1e10).astype(jnp.int32),
        )

    check(function, x, y)


def test_gradient_of_max_pooling(rng):
    x = rng.standard_normal((2, 7, 7, 3)).astype(np.float32)

    def pool(x, padding):
        window, strides = (1, 3, 3, 1), (1, 2, 2, 1)
        return lax.reduce_window(x, -jnp.inf, lax.max, window, strides, padding).sum()

    check(lambda x: [jax.grad(pool)(x, padding) for padding in ("SAME", "VALID")], x)


def test_functions_of_complex_numbers():
    z = np.array([0, 1 + 2j, -1, 3 - 1j, 1j, 0.5], np.complex64)

    def function(z):
        return jnp.sqrt(z), jnp.log(z), jnp.arctan(z * 0.5), jnp.exp(z), jnp.outer(z, z) @ z

    check(function, z)


def test_repairs_of_stablehlo_text():
    def function(a):
        return jnp.linalg.cholesky(a @ a.T + jnp.eye(3)), a.astype(jnp.uint8)

    a = np.arange(9, dtype=np.float32).reshape(3, 3) / 4
    imported = import_model(jax.jit(function).lower(a).as_text())
    assert imported.frontend == "mlir"
    for ours, theirs in zip(stock_program(imported)(a), function(a), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


def test_dead_values_of_loops_that_calls_read(rng):
    """The gradient of a scan reads two of its three stacks; functions write all of them."""
    x = rng.standard_normal((2, 3, 4)).astype(np.float32)

    def gradient(x):
        def scan(x):
            return lax.scan(lambda c, r: (jnp.tanh(c + r), c), x[0], x)[1]

        result, pull_back = jax.vjp(scan, x)
        return pull_back(jnp.ones_like(result))

    check(gradient, x)
    check(gradient, x.astype(np.complex64))


def test_largest_elements_of_an_export():
    """A composite there, which IREE 3.13 lowers as its own `top_k`: NaN and ties in any order."""
    for dtype in (np.float64, np.int64):
        x = np.array([[1, 3, 3, -2, 3, 0], [0, 0, -1, 5, 5, 5]], dtype)
        if dtype is np.float64:
            x[0, 3] = np.nan
        with jax.enable_x64(True):
            exported = jax.export.export(jax.jit(lambda x: lax.top_k(x, 4)))(x)
            expected = [np.asarray(v) for v in lax.top_k(x, 4)]
        values, indices = stock_program(import_model(exported, None))(x)
        np.testing.assert_array_equal(values, expected[0])
        np.testing.assert_array_equal(indices, expected[1])


def test_powers_and_roots_of_complex128():
    with jax.enable_x64(True):
        z = np.array([0, 1, -1, 1j, -2 - 1j, np.inf, 0, 0, 0], np.complex128)
        w = np.array([0, 2, 0.5, -1j, 1 + 1j, 0, 1 + 1j, -1, 2.5], np.complex128)
        check(lambda z, w: lax.pow(z, w)[6:], z, w)
        check(lambda z: lax.rsqrt(z), z[:6])


def test_the_range_of_complex_numbers(rng):
    """The largest and the smallest have imaginary parts of their own."""
    import mlirfuse

    x = (rng.standard_normal((5, 6)) + 1j * rng.standard_normal((5, 6))).astype(np.complex64)
    program = mlirfuse.compile(jnp.ptp, (x,), cache=False)
    np.testing.assert_allclose(program(x), jnp.ptp(x), rtol=1e-5)


EINSUMS = (
    "bsk,khd->bshd",
    "bsk,khd->bhsd",
    "bshd,hdk->bsk",
    "bhsd,hdk->bsk",
    "bqhd,bkhd->bhqk",
    "bhqk,bkhd->bqhd",
    "kb,nk->bn",
    "kb,nk->nb",
    "bks,nbk->bns",
    "xyk,kyz->zxy",
    "abcd,dcbe->ea",
    "abcd,bdce->ae",
    "ij,kl->lijk",
)


@pytest.mark.parametrize("half", [False, True])
def test_einsums(rng, half):
    kind = np.float16 if half else np.float32
    sizes = dict(zip("abcdehijklnqsxyz", range(2, 18), strict=True))
    arguments = [
        rng.integers(-3, 4, [sizes[letter] for letter in operand]).astype(kind)
        for form in EINSUMS
        for operand in form.split("->")[0].split(",")
    ]

    def function(*arguments):
        pairs = zip(arguments[::2], arguments[1::2], strict=True)
        return [jnp.einsum(form, a, b) for form, (a, b) in zip(EINSUMS, pairs, strict=True)]

    check(function, *arguments, tolerance=1e-6)


@pytest.mark.parametrize(
    ("form", "bias", "count"),
    [
        ("bsk,khd->bshd", "hd", 1),
        ("bshd,hdk->bsk", "k", 1),
        ("bsk,khd->bhsd", "h1d", 2),  # the transpose
    ],
)
def test_einsums_transpose_no_operand(form, bias, count):
    sizes = {"b": 4, "s": 96, "k": 256, "h": 8, "d": 64, "1": 1}
    operands = form.split("->")[0].split(",")
    arguments = tuple(
        jax.ShapeDtypeStruct([sizes[letter] for letter in name], jnp.float32)
        for name in (*operands, bias)
    )
    program = mlirfuse.compile(lambda x, w, b: jnp.einsum(form, x, w) + b, arguments, target="cpu")
    assert len(program.kernels) == count


def test_attention_with_biases(rng):
    """The biases of queries, keys and values are epilogues of their contractions."""

    def function(x, w, b):
        q, k, v = (jnp.einsum("bsd,dhk->bshk", x, w[i]) + b[i] for i in range(3))
        return jax.nn.dot_product_attention(q, k, v, is_causal=True)

    arguments = [
        rng.standard_normal(shape).astype(np.float32)
        for shape in ((2, 40, 48), (3, 48, 3, 16), (3, 3, 16))
    ]
    arguments[1] /= 7
    check(function, *arguments, tolerance=1e-5)
    program = mlirfuse.compile(function, tuple(arguments), target="cpu", cache=False)
    names = [kernel.name.partition("_")[0] for kernel in program.kernels]
    assert names == ["joint", "attention"]


def test_loops_whose_values_mlir_would_remove(rng):
    """A value of the step before, one computed twice, constants, a condition that is a value."""
    x = rng.random(5).astype(np.float32)

    def function(x, limit):
        def step(carried):
            x, _, twin, first = carried
            grown = jnp.where(first, x * 2, x + 1) + twin
            return grown, x, jnp.where(first, x * 2, x + 1) + twin, jnp.bool_(False)

        def last_step(carried):
            _, error, count = carried
            return x, error * jnp.where(count > 3, 0.1, 0.9), count + 1

        def again(carried):
            return (carried[1] + 1).sum() < limit, carried[1] + 1

        return (
            lax.while_loop(lambda c: c[0].sum() < limit, step, (x, x * 2, x * 3, True))[:2],
            lax.while_loop(
                lambda c: (c[1] > 0.01) & (c[0].sum() < limit), last_step, (x * 2, limit, 0)
            )[2],
            lax.while_loop(lambda c: c[0], again, (limit > 3, x))[1],
        )

    check(function, x, np.float32(90))


def test_steps_read_a_value_that_only_a_branch_reads():
    """The branch may fold away later, and with it the argument of one region."""
    from iree.compiler import ir

    from mlirfuse.frontends.jax_repairs.dead_values import remove_dead_values

    def function(x):
        def step(carried):
            return lax.cond(carried[0] < 3, lambda c: (c[0] + 1, c[1] / 2), lambda c: c, carried)

        return lax.while_loop(lambda c: c[1] > 0.01, step, (x, x))[0]

    lowered = jax.jit(function).lower(jnp.float32(1)).compiler_ir("stablehlo")
    with ir.Context():
        module = ir.Module.parse(lowered.operation.get_asm(print_generic_op_form=True))
        remove_dead_values(module)
        assert "stablehlo.select" in str(module)
