"""Writes attention on tensors op by op, in the ways that frameworks write it."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from helpers.linalg_text import Function, Tensor
from helpers.softmax_text import softmax_reference

B, H, G, M, N, D, K = range(7)
"""Loops: batch, KV heads, query heads of each, queries, head size of v, head size of q, keys."""

LOWEST = float(ml_dtypes.finfo(np.float32).min)

PREDICATES = {
    "causal": "%r = arith.cmpi sle, %j, %i : i32\n    ",
    "own": "%r = arith.cmpi eq, %j, %i : i32\n    ",
    "after": "%r = arith.cmpi sge, %j, %i : i32\n    ",
    "window": "%c = arith.constant 5 : i32\n    %d = arith.subi %j, %i : i32\n    "
    "%r = arith.cmpi sge, %d, %c : i32\n    ",
}
"""Masks of indices: whether query `%i` sees key `%j`."""

FILLS = {"boolean": -np.inf, "lowest": LOWEST, "billion": -1e9}
"""Boolean masks: the score that a select writes where the mask is false."""


CAP = 3.0
"""The largest magnitude of capped scores."""


class Graph(Function):
    """One attention that is being written; scores are f32."""

    def contract(self, a: Tensor, b: Tensor, over: int) -> Tensor:
        """The contraction of two tensors over one loop, accumulated in f32."""
        loops = tuple(sorted({*a.axes, *b.axes}))
        shape = Tensor("", tuple(x for x in loops if x != over), "f32")
        zero = self._constant(0.0, "f32")
        filled = self._emit(
            f"linalg.fill ins({zero} : f32) outs({self._empty(shape)} : {self.type(shape)})"
            f" -> {self.type(shape)}"
        )
        body, names = "", []
        for number, tensor in enumerate((a, b)):
            names.append(f"%a{number}")
            if tensor.dtype != "f32":
                names[-1] = f"%w{number}"
                body += f"%w{number} = arith.extf %a{number} : {tensor.dtype} to f32\n    "
        body += f"%p = arith.mulf {names[0]}, {names[1]} : f32\n    "
        body += "%r = arith.addf %out, %p : f32\n    "
        kinds = ["reduction" if x == over else "parallel" for x in loops]
        return self._write(body, "%r", [a, b], shape, filled, loops, kinds)

    def select(self, condition: Tensor, yes: Tensor | float, no: Tensor | float) -> Tensor:
        """`yes` where the condition holds, else `no`; two scalars are f32."""
        tensors = [x for x in (yes, no) if isinstance(x, Tensor)]
        dtype = tensors[0].dtype if tensors else "f32"
        names = [
            f"%a{1 + tensors.index(x)}" if isinstance(x, Tensor) else self._constant(x, dtype)
            for x in (yes, no)
        ]
        body = f"%r = arith.select %a0, {names[0]}, {names[1]} : {dtype}\n    "
        inputs = [condition, *tensors]
        loops = tuple(sorted({a for t in inputs for a in t.axes}))
        shape = Tensor("", loops, dtype)
        kinds = ["parallel"] * len(loops)
        return self._write(body, "%r", inputs, shape, self._empty(shape), loops, kinds)

    def indices(self, body: str) -> Tensor:
        """An i1 tensor over queries and keys from their indices, `%i` and `%j`, as i32."""
        shape = Tensor("", (M, K), "i1")
        name = self._emit(
            "linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>],"
            f' iterator_types = ["parallel", "parallel"]}} outs({self._empty(shape)} :'
            f" {self.type(shape)}) {{\n  ^bb0(%out: i1):\n"
            "    %x = linalg.index 0 : index\n    %y = linalg.index 1 : index\n"
            "    %i = arith.index_cast %x : index to i32\n"
            "    %j = arith.index_cast %y : index to i32\n"
            f"    {body}linalg.yield %r : i1\n  }} -> {self.type(shape)}"
        )
        return Tensor(name, shape.axes, "i1")

    def softmax(self, scores: Tensor) -> Tensor:
        """`linalg.softmax` over the last loop."""
        kind = self.type(scores)
        name = self._emit(
            f"linalg.softmax dimension({len(scores.axes) - 1}) ins({scores.name} : {kind})"
            f" outs({self._empty(scores)} : {kind}) -> {kind}"
        )
        return Tensor(name, scores.axes, "f32")

    def softmax_in_parts(self, scores: Tensor) -> Tensor:
        """As `jax.nn.softmax` decomposes."""
        row_max = self.reduce("arith.maximumf", scores, (K,), -np.inf)
        shifted = self.apply("arith.subf", scores, self.apply("copy", row_max, axes=scores.axes))
        exponential = self.apply("math.exp", shifted)
        row_sum = self.reduce("arith.addf", exponential, (K,))
        return self.apply("arith.divf", exponential, self.apply("copy", row_sum, axes=scores.axes))

    def safe(self, scores: Tensor, weights: Tensor) -> Tensor:
        """PyTorch's select: zero where all scores of a row are -inf."""
        wide = Tensor("", scores.axes, "i1")
        rows = Tensor("", tuple(a for a in scores.axes if a != K), "i1")
        low = self._constant(-np.inf, "f32")
        off = self._emit("arith.constant false")
        body = (
            f"%c = arith.cmpf oeq, %a0, {low} : f32\n    %r = arith.cmpi eq, %c, {off} : i1\n    "
        )
        kinds = ["parallel"] * len(wide.axes)
        finite = self._write(body, "%r", [scores], wide, self._empty(wide), wide.axes, kinds)
        filled = self._emit(
            f"linalg.fill ins({off} : i1) outs({self._empty(rows)} : {self.type(rows)})"
            f" -> {self.type(rows)}"
        )
        kinds = ["reduction" if a == K else "parallel" for a in wide.axes]
        body = "%r = arith.ori %a0, %out : i1\n    "
        some = self._write(body, "%r", [finite], rows, filled, wide.axes, kinds)
        kinds = ["parallel"] * len(rows.axes)
        body = f"%r = arith.cmpi eq, %a0, {off} : i1\n    "
        none = self._write(body, "%r", [some], rows, self._empty(rows), rows.axes, kinds)
        return self.select(none, 0.0, weights)


def kept(extents: tuple[int, ...], *axes: int) -> tuple[int, ...]:
    """The loops that are no unit: the others are left out of the tensors."""
    return tuple(a for a in axes if extents[a] != 1)


def write(
    name: str,
    extents: tuple[int, ...],
    *,
    dtype: str = "f32",
    scale: float = 0.25,
    mask: str = "",
    writing: str = "",
    zero: bool = False,
    dynamic: tuple[int, ...] = (),
) -> tuple[str, list[Tensor]]:
    """The text of a function that computes one attention, and its arguments.

    Args:
      name: the function's symbol.
      extents: sizes of the loops.
      dtype: element type of q, k, v and the result.
      scale: the factor of the scores.
      mask: key of `PREDICATES` or `FILLS`, `added` for the lowest number added where a mask is
        false, `bias` for any numbers added; empty for none.
      writing: words of how it is written: `parts`, `divided`, `on_q`, `on_k`, `swapped`; `capped`
        for scores that are `CAP` times their tanh.
      zero: whether rows of -inf become zero.
      dynamic: loops of dynamic size.
    """
    f = Graph(name, [None if x in dynamic else s for x, s in enumerate(extents)])
    q = f.argument(kept(extents, B, H, G, M, D), dtype)
    k = f.argument(kept(extents, B, H, K, D), dtype)
    v = f.argument(kept(extents, B, H, K, N), dtype)
    words = writing.split()
    left, right, factor = q, k, scale
    if "on_q" in words:
        left, factor = f.apply("arith.mulf", f.cast(q, "f32"), scale / 2), 2.0
    if "on_k" in words:
        right, factor = f.apply("arith.divf", f.cast(k, "f32"), 4.0), factor * 4.0
    scores = f.contract(*((right, left) if "swapped" in words else (left, right)), D)
    op, number = ("arith.divf", 1 / factor) if "divided" in words else ("arith.mulf", factor)
    scores = f.apply(op, scores, number)
    if "capped" in words:
        scores = f.apply("arith.mulf", f.apply("math.tanh", scores), CAP)
    arguments = [q, k, v]
    if mask in PREDICATES:
        scores = f.select(f.indices(PREDICATES[mask]), scores, -np.inf)
    elif mask in FILLS or mask == "added":
        keep = f.argument(kept(extents, B, M, K), "i1")
        arguments.append(keep)
        if mask == "added":
            scores = f.apply("arith.addf", scores, f.select(keep, 0.0, LOWEST))
        else:
            scores = f.select(keep, scores, FILLS[mask])
    elif mask == "bias":
        bias = f.argument(kept(extents, B, M, K), dtype)
        arguments.append(bias)
        scores = f.apply("arith.addf", scores, f.cast(bias, "f32"))
    weights = f.softmax_in_parts(scores) if "parts" in words else f.softmax(scores)
    if zero:
        weights = f.safe(scores, weights)
    weights = f.cast(weights, dtype)
    result = f.contract(*((v, weights) if "swapped" in words else (weights, v)), K)
    return f.finish(f.cast(result, dtype)), arguments


def attention_reference(q, k, v, scale, mask):
    """Softmax of the scores, with KV heads that several query heads share."""
    scores = np.einsum("bhgmd,bhkd->bhgmk", q, k) * scale + mask
    return np.einsum("bhgmk,bhkn->bhgmn", softmax_reference(scores), v)
