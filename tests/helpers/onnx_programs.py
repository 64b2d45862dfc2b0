"""Compiles ONNX programs and compares all results with ONNX's reference."""

import numpy as np
from onnx.reference import ReferenceEvaluator

import mlirfuse
from helpers.onnx_text import saved


def check(text, folder, arguments, *, tolerance=1e-5, opset=22, expected=None, **constants):
    """Compares types, shapes and values of all results with the reference, or the expected ones."""
    model, path = saved(text, folder, opset=opset, **constants)
    if expected is None:
        names = [value.name for value in model.graph.input]
        with np.errstate(all="ignore"):
            feeds = dict(zip(names, arguments, strict=True))
            expected = ReferenceEvaluator(model).run(None, feeds)
    compiled = mlirfuse.compile(path, target="cpu")
    results = compiled(*arguments)
    results = results if isinstance(results, tuple) else (results,)
    for value, got, wanted in zip(model.graph.output, results, expected, strict=True):
        wanted = np.asarray(wanted)
        assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape), value.name
        if wanted.dtype.kind in "biu":
            np.testing.assert_array_equal(got, wanted, value.name)
        else:
            scale = np.abs(wanted[np.isfinite(wanted)]).max(initial=1)
            np.testing.assert_allclose(
                got, wanted, rtol=tolerance, atol=tolerance * scale, err_msg=value.name
            )
    return compiled


def floats(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)
