"""JAX functions and exports: numbers against JAX, weights, structure, refusals."""

import functools
import sys

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.stock_program import operations, relative_error, stock_program, text
from mlirfuse.core import CallError, ImportFailedError, UsageError
from mlirfuse.frontends import import_model

WIDTH, HEADS, TOKENS = 32, 4, 8


def weights(dtype=np.float32):
    rng = np.random.default_rng(0)
    shapes = {
        "qkv": (WIDTH, 3 * WIDTH),
        "out": (WIDTH, WIDTH),
        "up": (WIDTH, 64),
        "down": (64, WIDTH),
    }
    return {
        name: jnp.asarray(rng.standard_normal(shape) / np.sqrt(shape[0]), dtype)
        for name, shape in shapes.items()
    }


def block(params, x):
    """A transformer block: causal attention and a gelu layer, both after a layer norm."""

    def norm(x):
        centered = x - x.mean(-1, keepdims=True)
        return centered * jax.lax.rsqrt((centered**2).mean(-1, keepdims=True) + 1e-5)

    batch = x.shape[0]
    qkv = (norm(x) @ params["qkv"]).reshape(batch, TOKENS, 3, HEADS, WIDTH // HEADS)
    a = jax.nn.dot_product_attention(
        *(jnp.squeeze(part, 2) for part in jnp.split(qkv, 3, 2)), is_causal=True
    )
    x = x + a.reshape(batch, TOKENS, WIDTH) @ params["out"]
    h = norm(x) @ params["up"]
    return x + (h * 0.5 * (1 + jax.lax.erf(h / np.sqrt(2).astype(h.dtype)))) @ params["down"]


def inputs(batch, dtype=np.float32):
    rng = np.random.default_rng(batch)
    return jnp.asarray(rng.standard_normal((batch, TOKENS, WIDTH)), dtype)


def check(imported, function, *argument_lists, tolerance=1e-5):
    program = stock_program(imported)
    for arguments in argument_lists:
        got = program(*(np.asarray(a) for a in imported.flatten(*arguments)))
        expected = jax.tree_util.tree_leaves(function(*arguments))
        assert len(got) == len(expected) == len(imported.outputs)
        for ours, theirs in zip(got, expected, strict=True):
            assert relative_error(ours, theirs) < tolerance


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-5), (jnp.bfloat16, 3e-2)])
def test_transformer_block_with_closed_over_weights(dtype, tolerance):
    params = weights(dtype)
    model = jax.jit(functools.partial(block, params))
    imported = import_model(model, (inputs(2, dtype),))
    assert imported.frontend == "jax"
    assert [str(s) for s in imported.inputs] == [
        f"2x8x32x{'f32' if dtype == np.float32 else 'bf16'}"
    ]
    check(imported, model, (inputs(2, dtype),), tolerance=tolerance)
    content = imported.path.read_bytes()
    assert all(np.asarray(w).tobytes() in content for w in params.values())
    assert text(imported).count(" dense_resource<constant") == len(params)
    assert b"elided" not in content


def test_float64_is_kept_on_the_cpu():
    import mlirfuse

    with jax.enable_x64(True):
        weight = np.random.default_rng(0).random((16, 16))
        program = mlirfuse.compile(lambda x: x @ weight, (np.ones((2, 16)),))
    assert [s.dtype for s in program.inputs + program.outputs] == ["f64", "f64"]
    assert relative_error(program(np.ones((2, 16))), np.ones((2, 16)) @ weight) < 1e-14


def test_weights_as_arguments():
    imported = import_model(
        block, (weights(), jax.ShapeDtypeStruct((2, TOKENS, WIDTH), np.float32))
    )
    assert [s.name for s in imported.inputs] == [
        "params['down']",
        "params['out']",
        "params['qkv']",
        "params['up']",
        "x",
    ]
    check(imported, block, (weights(), inputs(2)))


def test_erf_remains_one_operation():
    imported = import_model(block, (weights(), inputs(2)))
    assert operations(imported).count("math.erf") == 1


def exported(batch=2):
    model = functools.partial(block, weights())
    shape = jax.ShapeDtypeStruct((batch, TOKENS, WIDTH), np.float32)
    return model, jax.export.export(jax.jit(model))(shape)


def test_serialized_export(tmp_path):
    model, export = exported()
    data = bytes(export.serialize())
    path = tmp_path / "model"  # no suffix that could give it away
    path.write_bytes(data)
    for given in (export, data, path):
        imported = import_model(given)
        assert [str(s) for s in imported.inputs] == ["2x8x32xf32"]
    check(imported, model, (inputs(2),))


def test_portable_bytecode_of_an_export(tmp_path):
    model, export = exported()
    imported = import_model(export.mlir_module_serialized)
    assert (imported.frontend, imported.function) == ("mlir", "main")
    (result,) = stock_program(imported)(np.asarray(inputs(2)))
    assert relative_error(result, model(inputs(2))) < 1e-5


def test_symbolic_size_is_dynamic():
    """JAX exports dynamic broadcasts and reshapes, which IREE does not lower as they are."""
    (batch,) = jax.export.symbolic_shape("batch")
    model = functools.partial(block, weights())
    shape = jax.ShapeDtypeStruct((batch, TOKENS, WIDTH), np.float32)
    imported = import_model(model, (shape,))
    assert imported.inputs[0].shape == (None, TOKENS, WIDTH)
    assert imported.inputs[0].name == "x"
    check(imported, model, (inputs(1),), (inputs(3),))


def test_half_precision_matmul_of_dynamic_size():
    (batch,) = jax.export.symbolic_shape("batch")
    rng = np.random.default_rng(0)
    weight = rng.random((4096, 8)).astype(np.float16)
    x = rng.random((3, 2, 4096)).astype(np.float16)
    shape = jax.ShapeDtypeStruct((batch, 2, 4096), np.float16)
    (got,) = stock_program(import_model(lambda x: x @ jnp.asarray(weight), (shape,)))(x)
    assert relative_error(got, x.astype(np.float64) @ weight.astype(np.float64)) < 1e-3


def test_reshape_that_only_jax_knows_how_to_do_is_refused():
    (n,) = jax.export.symbolic_shape("n")
    shape = jax.ShapeDtypeStruct((n, 6, 4), np.float32)
    with pytest.raises(ImportFailedError, match=r"no lowering for 'stablehlo.dynamic_reshape' \("):
        import_model(lambda x: x.reshape(-1, 8), (shape,))


@pytest.mark.parametrize("dtype", [np.float16, jnp.bfloat16])
def test_half_precision_sums_are_as_exact_as_jax(dtype):
    """IREE alone accumulates in the element type: 8 % off for a float16 matmul with K = 4096."""
    rng = np.random.default_rng(0)
    shapes = (8, 4096), (4096, 8), (1, 8, 8, 64), (3, 3, 64, 8)
    arrays = [rng.random(shape).astype(dtype) for shape in shapes]

    def model(a, b, image, kernel):
        layout = ("NHWC", "HWIO", "NHWC")
        convolution = jax.lax.conv_general_dilated(
            image, kernel, (1, 1), "SAME", dimension_numbers=layout
        )
        return a @ b, convolution, a.sum(-1)

    got = stock_program(import_model(model, tuple(arrays)))(*arrays)
    with jax.enable_x64(True):
        exact = model(*(a.astype(np.float64) for a in arrays))
    for ours, jaxs, reference in zip(got, jax.jit(model)(*arrays), exact, strict=True):
        assert relative_error(ours, reference) <= 2 * relative_error(jaxs, reference)


def test_structure_of_arguments_and_results():
    def model(x, scale, *, bias):
        return {"y": x * scale + bias["b"], "pair": (x > 0, [x.sum()])}

    x, bias = jnp.arange(6.0).reshape(2, 3), {"a": jnp.ones(5), "b": jnp.ones(3)}
    imported = import_model(functools.partial(model, bias=bias), (x, 2.0))
    assert [(s.name, str(s)) for s in imported.inputs] == [("x", "2x3xf32"), ("scale", "f32")]
    imported = import_model(model, {"x": x, "scale": 2.0, "bias": bias})
    assert [s.name for s in imported.inputs] == ["bias['a']", "bias['b']", "scale", "x"]
    flat = imported.flatten(scale=2.0, x=x, bias=bias)
    assert [f is g for f, g in zip(flat, (bias["a"], bias["b"], 2.0, x), strict=True)] == [True] * 4
    got = stock_program(imported)(*(np.asarray(f, np.float32) for f in flat))
    result = imported.unflatten(got)
    np.testing.assert_array_equal(result["y"], x * 2 + 1)
    np.testing.assert_array_equal(result["pair"][0], x > 0)
    assert result["pair"][1][0] == 15
    with pytest.raises(
        CallError, match="called with arguments of the structure PyTreeDef"
    ) as caught:
        imported.flatten(x, 2.0, bias=bias)
    assert "\n" not in str(caught.value)


def test_export_that_drops_an_argument():
    def model(x, unused, y):
        return x - y

    imported = import_model(jax.export.export(jax.jit(model))(*[jnp.ones(3)] * 3))
    assert len(imported.inputs) == 2
    assert imported.flatten(1, 2, 3) == [1, 3]


def with_callback(x):
    return jax.pure_callback(lambda y: y, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            lambda x: jnp.linalg.eigvals(x),
            r"no lowering for 'lapack_sgeev_ffi' \(.*_jax.py:\d+:\d+\)$",
        ),
        (
            with_callback,
            r"with_callback: calls the Python function with_callback.<locals>.<lambda>",
        ),
        (lambda x: x @ jnp.ones((5, 5)), "JAX cannot trace it: TypeError: dot_general requires"),
        (lambda x, y: x, r"JAX cannot trace it: TypeError: .* missing 1 required positional"),
    ],
)
def test_function_that_cannot_be_imported_is_refused(model, message, capfd):
    with pytest.raises(ImportFailedError, match=message) as caught:
        import_model(model, (jnp.ones((3, 3)),))
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")


def test_export_for_other_than_one_platform_is_refused():
    export = jax.export.export(jax.jit(jnp.sin), platforms=("cpu", "cuda"))(jnp.ones(3))
    with pytest.raises(
        ImportFailedError, match=r"for the platforms cpu, cuda; one would be accepted"
    ):
        import_model(export)


def test_missing_example_inputs_are_refused():
    with pytest.raises(UsageError, match="a JAX function needs example inputs: a tuple"):
        import_model(jax.jit(jnp.sin))


def test_damaged_export_is_refused(tmp_path):
    data = bytes(exported()[1].serialize())
    (tmp_path / "model").write_bytes(data[: len(data) // 2])
    for given in (tmp_path / "model", b"\1\2" * 100 + b"StableHLO_v1"):
        with pytest.raises(
            ImportFailedError, match=r"not a serialized jax\.export that this"
        ) as caught:
            import_model(given)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("missing", ["jax", "flatbuffers"])
def test_missing_package_names_the_extra(missing, tmp_path, monkeypatch):
    data = bytes(exported()[1].serialize())
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.delitem(sys.modules, "jax._src.export.serialization")
    monkeypatch.delitem(sys.modules, "jax.export")
    with pytest.raises(UsageError, match=rf"needs {missing}: pip install 'mlirfuse\[jax\]'$"):
        import_model(data)
