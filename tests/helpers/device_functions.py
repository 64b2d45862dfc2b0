"""Functions of `triton.language.extra.libdevice`, which the interpreter lacks, by numpy."""

import math

import numpy as np


def _each(function, kind=None):
    vectorized = np.vectorize(function, otypes=[kind or np.float64])
    return lambda *values: vectorized(*values)


def _bits(value, count):
    width = value.dtype.itemsize * 8
    return np.vectorize(lambda n: count(f"{int(n) % (1 << width):0{width}b}"), otypes=[np.int32])(
        value
    )


def _round(value):
    return np.copysign(np.floor(np.abs(value) + 0.5), value)


FUNCTIONS = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "atanh": np.arctanh,
    "copysign": np.copysign,
    "cosh": np.cosh,
    "erfc": _each(math.erfc),
    "expm1": np.expm1,
    "fast_dividef": np.divide,
    "fast_log2f": np.log2,
    "fmod": np.fmod,
    "log10": np.log10,
    "log1p": np.log1p,
    "pow": np.power,
    "rint": np.rint,
    "round": _round,
    "sinh": np.sinh,
    "tan": np.tan,
    "tanh": np.tanh,
    "trunc": np.trunc,
    "clz": lambda x: _bits(x, lambda text: len(text) - len(text.lstrip("0"))),
    "popc": lambda x: _bits(x, lambda text: text.count("1")),
}
"""Name -> the function of arrays."""


def install(patch):
    """Replaces the functions for the interpreter.

    Args:
      patch: pytest's `MonkeyPatch`.
    """
    import triton.language as tl
    from triton.language.extra import libdevice
    from triton.runtime.interpreter import TensorHandle

    def replaced(function, counts):
        def called(*values):
            given = [getattr(value, "handle", None) for value in values]
            like = next(handle for handle in given if handle is not None)
            arrays = [v if h is None else h.data for v, h in zip(values, given, strict=True)]
            with np.errstate(all="ignore"):
                data = np.asarray(function(*arrays))
            kind = tl.int32 if counts else like.dtype.scalar
            data = data.astype(np.int32 if counts else like.data.dtype)
            block = tl.block_type(kind, list(data.shape)) if data.shape else kind
            return tl.tensor(TensorHandle(data, kind), block)

        return called

    for name, function in FUNCTIONS.items():
        patch.setattr(libdevice, name, replaced(function, name in ("clz", "popc")))
