"""JAX programs compiled without fusion, against JAX."""

import jax
import jax.numpy as jnp
import numpy as np

import mlirfuse
from helpers.stock_program import stock_program
from mlirfuse.frontends import import_model


def check(function, *arguments, tolerance=2e-5):
    """Compiles a function without fusion, and compares types, shapes and values with JAX.

    Functions of f64 have code in ours alone.
    """
    imported = import_model(function, arguments)
    flat = [np.asarray(a) for a in imported.flatten(*arguments)]
    expected = jax.tree_util.tree_leaves(function(*map(jnp.asarray, arguments)))
    program = mlirfuse.compile(imported) if imported.keeps_f64 else stock_program(imported)
    found = jax.tree_util.tree_leaves(program(*flat))
    for ours, theirs in zip(found, expected, strict=True):
        ours, theirs = np.asarray(ours), np.asarray(theirs)
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)
