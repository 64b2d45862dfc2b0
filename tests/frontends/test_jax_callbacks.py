"""Calls of Python functions from JAX programs: left out, checks, refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import io_callback

from helpers.jax_programs import check
from mlirfuse.core import ImportFailedError
from mlirfuse.frontends import import_model
from mlirfuse.frontends.jax_callbacks import never_returns


def test_debugging_is_left_out():
    def function(x):
        jax.debug.print("x {}", x)

        def step(y, _):
            jax.debug.callback(lambda y: None, y)
            return y * 2, y

        return lax.scan(step, x, length=3)

    x = np.arange(4, dtype=np.float32)
    check(function, x)
    assert import_model(function, (x,)).notes == ("calls of jax.debug are left out",)


def raises(x):
    raise ValueError(f"{x} is negative")


def checked(x):
    """As `equinox.error_if`: a function that reads the results of one that never returns."""
    like = jax.ShapeDtypeStruct(x.shape, x.dtype)

    def fail():
        found = jax.pure_callback(raises, like, x)
        return jax.pure_callback(lambda x: input("shown"), like, found)

    return lax.cond(jnp.any(x < 0), fail, lambda: x) + 1


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_checks_give_invalid_values(dtype):
    from helpers.stock_program import stock_program

    good, bad = np.arange(3, dtype=dtype), np.arange(3, dtype=dtype) - 1
    imported = import_model(checked, (good,))
    program = stock_program(imported)
    np.testing.assert_array_equal(program(good)[0], good + 1)
    invalid = np.full(3, np.nan if dtype == np.float32 else np.iinfo(dtype).min, dtype)
    np.testing.assert_array_equal(program(bad)[0], invalid)
    assert imported.notes == ("checks that raise in Python give NaN or the largest integer",)


def test_functions_that_never_return():
    def returns(x):
        if x:
            raise ValueError(x)

    def generates(x):
        yield x
        raise ValueError(x)

    assert never_returns(raises)
    assert not never_returns(returns)
    assert not never_returns(generates)
    assert not never_returns(np.sin)


def prints_in_order(x):
    jax.debug.print("{}", x, ordered=True)
    return x


def writes(x):
    io_callback(print, None, x)
    return x


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: jax.pure_callback(np.sin, x, x), "calls the Python function sin, which"),
        (writes, "writes: calls the Python function print, which"),
        (prints_in_order, "an ordered jax.debug call has no place"),
    ],
)
def test_other_calls_are_refused(function, message):
    with pytest.raises(ImportFailedError, match=message):
        import_model(function, (jnp.ones(3),))
