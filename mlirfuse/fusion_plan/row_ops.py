"""Writes matmuls, attention, norms, softmax and reductions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from mlirfuse.fusion_plan import ops
from mlirfuse.fusion_plan.chain import Chain, Load, loops
from mlirfuse.fusion_plan.mlir_text import Body, Read, Tensor
from mlirfuse.fusion_plan.tensors import TensorSpec


def _matmul(chain: Chain, op: ops.Matmul, given: TensorSpec, own: Mapping[str, Tensor]) -> None:
    chain.flush(given.dtype)
    m = chain.module
    outer = [f"m{i}" for i in range(given.rank - 1)]
    weights = own["weights"]
    w = ("n", "k") if op.transposed else ("k", "n")
    y = (*outer, "n")
    init = Read(m.filled(0.0, (*given.shape[:-1], op.n)), y)

    def body(b: Body, values: list[str], sums: list[str]) -> Sequence[str]:
        return (b.op("arith.addf", sums[0], b.op("arith.mulf", *values)),)

    reads = [Read(chain.value, (*outer, "k")), Read(weights, w)]
    (made,) = m.generic([*y, "k"], ["k"], reads, [init], body)
    chain.become(made)


_COMBINE = {
    "sum": ("arith.addf", 0.0),
    "mean": ("arith.addf", 0.0),
    "max": ("arith.maximumf", -math.inf),
    "min": ("arith.minimumf", math.inf),
}


def reduced(chain: Chain, mode: str, axes: Sequence[int], value: Tensor | None = None) -> Tensor:
    """A reduction of the chain's value, or of another tensor of its shape, in f32."""
    m = chain.module
    source = value or chain.value
    names = loops(len(source.shape))
    kept = tuple(n for i, n in enumerate(names) if i not in axes)
    shape = [s for i, s in enumerate(source.shape) if i not in axes]
    combine, start = _COMBINE[mode]
    init = Read(m.filled(start, shape), kept)

    def body(b: Body, values: list[str], sums: list[str]) -> Sequence[str]:
        return (b.op(combine, sums[0], values[0]),)

    over = [n for n in names if n not in kept]
    (made,) = m.generic(names, over, [Read(source, tuple(names))], [init], body)
    return made


def _rows(chain: Chain) -> tuple[int, ...]:
    return tuple(range(len(chain.shape) - 1))


def _norm(chain: Chain, op: ops.Norm, given: TensorSpec, own: Mapping[str, Tensor]) -> None:
    chain.flush()
    last, rows, size = len(chain.shape) - 1, _rows(chain), float(chain.shape[-1])
    if op.mode == "layer":
        total = reduced(chain, "sum", (last,))

        def center(b: Body, x: str, load: Load) -> str:
            mean = b.op("arith.divf", load(total, rows), b.constant(size))
            return b.op("arith.subf", x, mean)

        chain.pointwise(center)
        chain.flush()
    source = chain.value
    chain.pointwise(lambda b, x, load: b.op("arith.mulf", x, x))
    squares = reduced(chain, "sum", (last,), chain.flush())
    chain.become(source)

    def step(b: Body, x: str, load: Load) -> str:
        mean = b.op("arith.divf", load(squares, rows), b.constant(size))
        factor = b.op("math.rsqrt", b.op("arith.addf", mean, load(own["epsilon"], ())))
        scaled = b.op("arith.mulf", b.op("arith.mulf", x, factor), load(own["scale"], (last,)))
        if op.mode == "rms":
            return scaled
        return b.op("arith.addf", scaled, load(own["bias"], (last,)))

    chain.pointwise(step)


def _softmax(chain: Chain, op: ops.Softmax, given: TensorSpec, own: Mapping[str, Tensor]) -> None:
    chain.flush()
    last, rows = len(chain.shape) - 1, _rows(chain)
    largest = reduced(chain, "max", (last,))
    chain.pointwise(lambda b, x, load: b.op("math.exp", b.op("arith.subf", x, load(largest, rows))))
    chain.flush()
    total = reduced(chain, "sum", (last,))
    chain.pointwise(lambda b, x, load: b.op("arith.divf", x, load(total, rows)))


def _reduce(chain: Chain, op: ops.Reduce, given: TensorSpec, own: Mapping[str, Tensor]) -> None:
    chain.flush()
    axes = op.positions(given)
    chain.become(reduced(chain, op.mode, axes))
    if op.mode == "mean":
        count = float(math.prod(given.shape[a] for a in axes))
        chain.pointwise(lambda b, x, load: b.op("arith.divf", x, b.constant(count)))


def _attention(
    chain: Chain, op: ops.Attention, given: TensorSpec, own: Mapping[str, Tensor]
) -> None:
    chain.flush(given.dtype)
    m = chain.module
    q, k, v = chain.value, own["keys"], own["values"]
    init = m.empty(given.shape, given.dtype)
    scale = m.scalar(op.scale(given), given.dtype)
    maps = ("b, h, m, c", "b, h, k, c", "b, h, k, n", "", "b, h, m, n")
    listed = ", ".join(f"affine_map<(b, h, m, n, c, k) -> ({each})>" for each in maps)
    text = (
        f"iree_linalg_ext.attention <indexing_maps = [{listed}]>"
        f" ins({q.name}, {k.name}, {v.name}, {scale} :"
        f" {q.type}, {k.type}, {v.type}, {given.dtype}) outs({init.name} : {init.type}) {{\n"
        f"    ^bb0(%score: f32):\n      iree_linalg_ext.yield %score : f32\n    }} -> {init.type}"
    )
    chain.become(m.tensor(text, given.shape, given.dtype))


WRITERS: Mapping[str, Any] = {
    "matmul": _matmul,
    "norm": _norm,
    "softmax": _softmax,
    "reduce": _reduce,
    "attention": _attention,
}
