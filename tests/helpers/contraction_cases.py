"""Matmuls with slices and siblings, as cases of the harness."""

import numpy as np

from helpers.harness import FLOATS, Case
from helpers.linalg_text import Function, Tensor

M, N, K = 32, 48, 32


def silu(f: Function, x: Tensor) -> Tensor:
    shifted = f.apply("arith.addf", f.apply("math.exp", f.apply("arith.negf", x)), 1.0)
    return f.apply("arith.divf", x, shifted)


def silu64(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-x))


def inputs(dtype: str, *shapes: tuple[int, ...]) -> dict[str, tuple[np.ndarray, ...]]:
    rng = np.random.default_rng(11)
    kind = FLOATS[dtype]

    def draw(scale: float) -> tuple[np.ndarray, ...]:
        return tuple((scale * rng.standard_normal(s)).astype(kind) for s in shapes)

    hostile = draw(1.0)
    hostile[0].flat[0] = np.inf
    hostile[0].flat[hostile[0].shape[-1]] = np.nan
    tiny = draw(1.0)
    tiny[0][:] = np.finfo(np.float32).tiny if dtype != "f16" else 6e-8
    return {
        "normal": draw(0.5),
        "zeros": tuple(np.zeros(s, kind) for s in shapes),
        "negative zeros": tuple(-np.zeros(s, kind) for s in shapes),
        "equal rows": tuple(np.full(s, 0.25, kind) for s in shapes),
        "big": draw(30.0 if dtype == "f16" else 1e4),
        "tiny": tiny,
        "hostile": hostile,
    }


HOSTILE = frozenset({"hostile", "big", "tiny"})


def matmul(f: Function, x: Tensor, w: Tensor, dtype: str) -> Tensor:
    """A matmul with f32 accumulators, as frontends write it; cast back for narrow types."""
    return f.cast(f.contract(x, w, (x.axes[0], w.axes[1]), "f32"), dtype)


def gated(name: str, dtype: str, dynamic: bool, biased: bool, swapped: bool) -> Case:
    """SiLU(x Wg + bg) * (x Wu + bu), the factors in either order."""
    f = Function(name, (None if dynamic else M, N, K))
    x, g, u = f.argument((0, 2), dtype), f.argument((2, 1), dtype), f.argument((2, 1), dtype)
    biases = [f.argument((1,), dtype) for _ in range(2)] if biased else []
    factors = [matmul(f, x, w, dtype) for w in (g, u)]
    if biased:
        factors = [f.apply("arith.addf", y, b) for y, b in zip(factors, biases, strict=True)]
    gate = silu(f, factors[0])
    y = f.apply("arith.mulf", *((factors[1], gate) if swapped else (gate, factors[1])))
    return Case(
        name=name,
        text=f.finish(y),
        inputs=inputs(dtype, (M, K), (K, N), (K, N), *([(N,)] * len(biases))),
        reference=lambda x, g, u, bg=0.0, bu=0.0: (silu64(x @ g + bg) * (x @ u + bu),),
        fires={"inference_swiglu_fusion": 1},
        ulps=K,
        computed=dtype,
        hostile=HOSTILE,
        dispatches=1,
    )


def halves(name: str, dtype: str, dynamic: bool, second: bool) -> Case:
    """SiLU of one half of the columns times the other half, after a bias."""
    f = Function(name, (None if dynamic else M, 2 * N, K, N))
    x, w, b = f.argument((0, 2), dtype), f.argument((2, 1), dtype), f.argument((1,), dtype)
    whole = f.apply("arith.addf", matmul(f, x, w, dtype), b)
    parts = [f.part(whole, 3, 0), f.part(whole, 3, N)]
    y = f.apply("arith.mulf", silu(f, parts[second]), parts[not second])

    def reference(x, w, b):
        left, right = np.split(x @ w + b, 2, axis=-1)
        return (left * silu64(right) if second else silu64(left) * right,)

    return Case(
        name=name,
        text=f.finish(y),
        inputs=inputs(dtype, (M, K), (K, 2 * N), (2 * N,)),
        reference=reference,
        fires={"inference_swiglu_fusion": 1},
        ulps=K,
        computed=dtype,
        hostile=HOSTILE,
        dispatches=1,
    )


def split(name: str, dtype: str, dynamic: bool, count: int, gate: int | None) -> Case:
    """Two or three slices along N as results, one perhaps through SiLU."""
    f = Function(name, (None if dynamic else M, count * N, K, N))
    x, w, b = f.argument((0, 2), dtype), f.argument((2, 1), dtype), f.argument((1,), dtype)
    whole = f.apply("arith.addf", matmul(f, x, w, dtype), b)
    parts = [f.part(whole, 3, i * N) for i in range(count)]
    if gate is not None:
        parts[gate] = silu(f, parts[gate])

    def reference(x, w, b):
        found = np.split(x @ w + b, count, axis=-1)
        return tuple(silu64(p) if i == gate else p for i, p in enumerate(found))

    return Case(
        name=name,
        text=f.finish(*parts),
        inputs=inputs(dtype, (M, K), (K, count * N), (count * N,)),
        reference=reference,
        fires={"inference_matmul_split_fusion": 1},
        ulps=K,
        computed=dtype,
        hostile=HOSTILE,
        dispatches=1,
    )


def one_batch(name: str) -> Case:
    """PyTorch's `linear(x, w).chunk(2, -1)` of a batch of one, which drops out of the parts."""
    whole, part = f"1x{M}x{2 * N}xf32", f"{M}x{N}xf32"
    text = f"""
  func.func @{name}(%x: tensor<{M}x{K}xf32>, %w: tensor<{K}x{2 * N}xf32>)
      -> (tensor<{part}>, tensor<{part}>) {{
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<{M}x{2 * N}xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<{M}x{2 * N}xf32>) -> tensor<{M}x{2 * N}xf32>
    %c = linalg.matmul ins(%x, %w : tensor<{M}x{K}xf32>, tensor<{K}x{2 * N}xf32>)
        outs(%f : tensor<{M}x{2 * N}xf32>) -> tensor<{M}x{2 * N}xf32>
    %r = tensor.expand_shape %c [[0, 1], [2]] output_shape [1, {M}, {2 * N}]
        : tensor<{M}x{2 * N}xf32> into tensor<{whole}>
    %p0 = tensor.extract_slice %r[0, 0, 0] [1, {M}, {N}] [1, 1, 1]
        : tensor<{whole}> to tensor<{part}>
    %p1 = tensor.extract_slice %r[0, 0, {N}] [1, {M}, {N}] [1, 1, 1]
        : tensor<{whole}> to tensor<{part}>
    return %p0, %p1 : tensor<{part}>, tensor<{part}>
  }}
"""
    return Case(
        name=name,
        text=text,
        inputs=inputs("f32", (M, K), (K, 2 * N)),
        reference=lambda x, w: tuple(np.split(x @ w, 2, axis=-1)),
        fires={"inference_matmul_split_fusion": 1},
        ulps=K,
        computed="f32",
        hostile=HOSTILE,
        dispatches=1,
    )


def siblings(name: str, dtype: str, dynamic: bool, count: int) -> Case:
    """Matmuls of one tensor with several, the first with a bias, the last with SiLU and a gate.

    With a dynamic M no matmul is a result itself.
    """
    f = Function(name, (None if dynamic else M, N, K))
    x, *weights = f.argument((0, 2), dtype), *(f.argument((2, 1), dtype) for _ in range(count))
    bias, gate = f.argument((1,), dtype), f.argument((0, 1), dtype)
    made = [matmul(f, x, w, dtype) for w in weights]
    first = f.apply("arith.addf", made[0], bias)
    last = f.apply("arith.mulf", silu(f, made[-1]), gate)
    middle = [f.apply("arith.negf", y) for y in made[1:-1]] if dynamic else made[1:-1]

    def reference(x, *rest):
        *weights, bias, gate = rest
        first, *middle, last = (x @ w for w in weights)
        results = (first + bias, *(-y if dynamic else y for y in middle), silu64(last) * gate)
        return results if dynamic else (*results, last)

    return Case(
        name=name,
        text=f.finish(first, *middle, last, *([] if dynamic else made[-1:])),
        inputs=inputs(dtype, (M, K), *([(K, N)] * count), (N,), (M, N)),
        reference=reference,
        fires={"matmul_horizontal_fusion": 1},
        ulps=K,
        computed=dtype,
        hostile=HOSTILE,
        dispatches=1,
    )


def merged(name: str, dtype: str, dynamic: bool, heads: bool) -> Case:
    """Matmuls with constant weights, N of 48, 16 and 32, and biases, each with a group as user."""
    widths = (N, N // 3, 2 * N // 3)
    size = N // 6
    f = Function(name, (None if dynamic else M, K, size, N, *widths, *(w // size for w in widths)))
    rng = np.random.default_rng(5)
    x = f.argument((0, 1), dtype)
    weights = [(rng.standard_normal((K, w)) / 2).astype(FLOATS[dtype]) for w in widths]
    biases = [rng.standard_normal(w).astype(FLOATS[dtype]) for w in widths]
    further = [(rng.standard_normal((w, N)) / 2).astype(FLOATS[dtype]) for w in widths]
    ends = []
    for i, (w, b, v) in enumerate(zip(weights, biases, further, strict=True)):
        y = matmul(f, x, f.constant((1, 4 + i), dtype, w.tobytes()), dtype)
        y = f.apply("arith.addf", y, f.constant((4 + i,), dtype, b.tobytes()))
        if heads:
            y = f.reshape(y, (0, 7 + i, 2), "[[0], [1, 2]]")
            y = f.contract(y, f.constant((7 + i, 2, 3), dtype, v.tobytes()), (7 + i, 0, 3))
        else:
            y = f.contract(y, f.constant((4 + i, 3), dtype, v.tobytes()), (0, 3))
        ends.append(f.apply("arith.maximumf", y, 0.0, axes=y.axes))

    def reference(x):
        results = []
        for arrays in zip(weights, biases, further, strict=True):
            w, b, v = (array.astype(float) for array in arrays)
            y = x @ w + b
            if heads:
                y = y.reshape(M, -1, size).transpose(1, 0, 2)
                v = v.reshape(-1, size, N)
            results.append(np.maximum(y @ v, 0))
        return tuple(results)

    return Case(
        name=name,
        text=f.finish(*ends),
        inputs=inputs(dtype, (M, K)),
        reference=reference,
        fires={"matmul_horizontal_fusion": 1, "matmul_elem_relu_fusion": 3},
        ulps=K * N,
        computed=dtype,
        hostile=HOSTILE,
        dispatches=4,
    )
