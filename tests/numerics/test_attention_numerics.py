"""What the attention passes leave computes what the unfused program and float64 compute."""

import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from harness import FLOATS, Batch, Case
from linalg_text import Function, Tensor

V1, V2 = "flash_attention_fusion_v1", "flash_attention_fusion_v2"
ALL = f"{V1},{V2}"
# The passes are off on the CPU by default, where they do not pay.
ON = {"enable_pass": (V1, V2)}
LIT = Path(__file__).parent.parent.parent / "lit_tests" / "patterns"

ULPS = 8.0
"""Two contractions, an exponential and a division; exp2 in place of exp."""

B, H, G, M, N, D, K = range(7)
"""Loops: batch, heads of k, heads of q a head of k, queries, width of v, width of q, keys."""

LOWEST = {name: float(ml_dtypes.finfo(kind).min) for name, kind in FLOATS.items()}


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
        """`yes` where the condition holds, else `no`; one of them is a number."""
        given = yes if isinstance(yes, Tensor) else no
        assert isinstance(given, Tensor)
        names = [
            "%a1" if isinstance(x, Tensor) else self._constant(x, given.dtype) for x in (yes, no)
        ]
        body = f"%r = arith.select %a0, {names[0]}, {names[1]} : {given.dtype}\n    "
        loops = tuple(sorted({*condition.axes, *given.axes}))
        shape = Tensor("", loops, given.dtype)
        kinds = ["parallel"] * len(loops)
        inputs = [condition, given]
        return self._write(body, "%r", inputs, shape, self._empty(shape), loops, kinds)

    def indices(self, body: str) -> Tensor:
        """An i1 tensor over queries and keys from their numbers, `%i` and `%j`, as i32."""
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
        highest = self.reduce("arith.maximumf", scores, (K,), -np.inf)
        shifted = self.apply("arith.subf", scores, self.apply("copy", highest, axes=scores.axes))
        power = self.apply("math.exp", shifted)
        total = self.reduce("arith.addf", power, (K,))
        return self.apply("arith.divf", power, self.apply("copy", total, axes=scores.axes))

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


def attend(q, k, v, scale, mask=0.0, zero=False):
    """Attention in float64: q has a dimension for the heads of q that share one of k."""
    scores = np.einsum("bhgmd,bhkd->bhgmk", q, k) * scale + mask
    highest = scores.max(-1, keepdims=True)
    weights = np.exp(scores - highest)
    weights /= weights.sum(-1, keepdims=True)
    if zero:
        weights = np.where(highest == -np.inf, 0.0, weights)
    return np.einsum("bhgmk,bhkn->bhgmn", weights, v)


SIZES = {
    "self": (2, 2, 1, 32, 16, 16, 32),
    "odd": (1, 3, 1, 37, 20, 12, 53),
    "grouped": (2, 2, 4, 24, 16, 16, 40),
    "shared": (1, 1, 8, 33, 32, 32, 33),
    "long": (1, 2, 1, 66, 32, 32, 129),
}
"""Sizes of the loops; a size of one is left out of the tensors."""


def make(
    name: str,
    sizes: str = "self",
    *,
    dtype: str = "f32",
    scale: float = 0.25,
    mask: str = "",
    writing: str = "",
    zero: bool = False,
    dynamic: bool = False,
) -> Case:
    """A case of one attention.

    Args:
      name: the function's name.
      sizes: key of `SIZES`.
      dtype: element type of q, k, v and the result.
      scale: the factor of the scores.
      mask: `causal`, `boolean`, `lowest`, `bias`, `window`; empty for none.
      writing: words of how it is written: `parts`, `divided`, `on_q`, `on_k`, `swapped`.
      zero: whether rows of -inf become zero.
      dynamic: whether the numbers of queries and keys are dynamic.
    """
    extents = SIZES[sizes]
    declared = [None if dynamic and x in (M, K) else s for x, s in enumerate(extents)]
    f = Graph(name, declared)

    def kept(*axes: int) -> tuple[int, ...]:
        return tuple(a for a in axes if extents[a] != 1)

    def full(array: np.ndarray, *axes: int) -> np.ndarray:
        lengths = iter(array.shape)
        return array.reshape([next(lengths) if a in kept(*axes) else 1 for a in axes])

    q = f.argument(kept(B, H, G, M, D), dtype)
    k = f.argument(kept(B, H, K, D), dtype)
    v = f.argument(kept(B, H, K, N), dtype)
    words = writing.split()
    left, right, factor = q, k, scale
    if "on_q" in words:
        left, factor = f.apply("arith.mulf", f.cast(q, "f32"), scale / 2), 2.0
    if "on_k" in words:
        right, factor = f.apply("arith.divf", f.cast(k, "f32"), 4.0), factor * 4.0
    scores = f.contract(*((right, left) if "swapped" in words else (left, right)), D)
    op, number = ("arith.divf", 1 / factor) if "divided" in words else ("arith.mulf", factor)
    scores = f.apply(op, scores, number)
    arguments = [q, k, v]
    if mask == "causal":
        below = f.indices("%r = arith.cmpi sle, %j, %i : i32\n    ")
        scores = f.select(below, scores, -np.inf)
    elif mask == "window":
        five = "%c = arith.constant 5 : i32\n    %d = arith.subi %j, %i : i32\n    "
        ahead = f.indices(five + "%r = arith.cmpi sge, %d, %c : i32\n    ")
        scores = f.select(ahead, scores, -np.inf)
    elif mask in ("boolean", "lowest"):
        keep = f.argument(kept(B, M, K), "i1")
        arguments.append(keep)
        scores = f.select(keep, scores, -np.inf if mask == "boolean" else LOWEST["f32"])
    elif mask == "bias":
        bias = f.argument(kept(B, M, K), dtype)
        arguments.append(bias)
        scores = f.apply("arith.addf", scores, f.cast(bias, "f32"))
    weights = f.softmax_in_parts(scores) if "parts" in words else f.softmax(scores)
    if zero:
        weights = f.safe(scores, weights)
    weights = f.cast(weights, dtype)
    result = f.contract(*((v, weights) if "swapped" in words else (weights, v)), K)
    text = f.finish(f.cast(result, dtype))

    def reference(q, k, v, *rest):
        lengths = (q.shape[-2], k.shape[-2])
        added = 0.0
        if mask == "causal":
            added = np.where(np.tri(*lengths, dtype=bool), 0.0, -np.inf)
        elif mask == "window":
            added = np.where(
                np.arange(lengths[1]) - np.arange(lengths[0])[:, None] >= 5, 0, -np.inf
            )
        elif mask:
            added = full(rest[0], B, M, K)[:, None, None]
            if mask != "bias":
                added = np.where(added, 0.0, -np.inf if mask == "boolean" else LOWEST["f32"])
            # The harness moves every number by one rounding, which says nothing about these.
            added = np.where(np.isnan(added), -np.inf, added)
            added = np.where((added < -1e38) & np.isfinite(added), -1e38, added)
        out = attend(
            full(q, B, H, G, M, D), full(k, B, H, K, D), full(v, B, H, K, N), scale, added, zero
        )
        return (out.reshape([out.shape[n] for n, a in enumerate((B, H, G, M, N)) if a in kept(a)]),)

    generator = np.random.default_rng(len(name))

    def random(lengths: tuple[int, int], size: float) -> tuple[np.ndarray, ...]:
        actual = [*extents]
        actual[M], actual[K] = lengths
        shapes = [[actual[a] for a in t.axes] for t in arguments]
        made = [generator.standard_normal(s) for s in shapes]
        made[0] *= size
        if len(made) == 4:
            if mask == "bias":
                # One key that nobody sees, a row of the lowest number, a row of -inf.
                made[3][..., 1] = -np.inf
                made[3][..., 2, :] = LOWEST[dtype]
                made[3][..., 3, :] = -np.inf
            else:
                made[3] = made[3] > -0.5
                made[3][..., 2, :] = False
        kinds = [FLOATS.get(t.dtype, np.bool_) for t in arguments]
        return tuple(a.astype(kind) for a, kind in zip(made, kinds, strict=True))

    lengths = [(extents[M], extents[K])] + ([(19, 35), (64, 16)] if dynamic else [])
    inputs = {f"{m} by {n}": random((m, n), 1.0) for m, n in lengths}
    inputs["large scores"] = random(lengths[0], 30.0)
    return Case(
        name=name,
        text=text,
        inputs=inputs,
        reference=reference,
        fires={V1 if mask else V2: 1},
        ulps=ULPS,
        computed=dtype,
    )


def section(name: str) -> str:
    """The function of that name in a lit file, with attribute aliases of its own."""
    for file in (V1, V2):
        for text in (LIT / f"{file}.mlir").read_text(encoding="utf-8").split("// -----"):
            if f"func.func @{name}(" in text:
                return re.sub(r"#(map\d*)\b", rf"#{name}_\1", text)
    raise KeyError(name)


def imported(name: str, fires: str, reference, *arguments: np.ndarray) -> Case:
    """A case of what a framework wrote."""
    return Case(
        name=name,
        text=section(name),
        inputs={"normal": arguments},
        reference=lambda *wide: (reference(*wide),),
        fires={fires: 1},
        ulps=ULPS,
        computed="f16" if arguments[0].dtype == np.float16 else "f32",
    )


def imports() -> list[Case]:
    """The imports of PyTorch, JAX and ONNX in the lit files, on random numbers."""
    generator = np.random.default_rng(11)

    def normal(*shape: int, kind: type = np.float32) -> np.ndarray:
        return generator.standard_normal(shape).astype(kind)

    def heads_first(q, k, v, scale, mask=0.0):
        return attend(q[:, :, None], k, v, scale, mask)[:, :, 0]

    def heads_last(q, k, v, scale, mask):
        moved = (x.transpose(0, 2, 1, 3) for x in (q, k, v))
        return heads_first(*moved, scale, mask).transpose(0, 2, 1, 3)

    causal = np.where(np.tri(16, 24, dtype=bool), 0.0, -np.inf)
    keep = generator.random((2, 1, 16, 24)) < 0.7
    keep[1, 0, 5] = False
    padding = np.where(np.arange(24) < 17, 0.0, LOWEST["f32"]) * np.ones((2, 1, 1, 1))
    padding[1] = LOWEST["f32"]
    q, k, v = normal(2, 4, 16, 8), normal(2, 4, 24, 8), normal(2, 4, 24, 8)
    grouped = (normal(2, 8, 16, 8), normal(2, 2, 24, 8), normal(2, 2, 24, 8))
    narrow = [x.astype(np.float16) for x in (q, k, v)]
    last = [np.ascontiguousarray(x.transpose(0, 2, 1, 3)) for x in (q, k, v)]
    root = 8**-0.5
    return [
        imported(
            "torch_sdpa_causal",
            V1,
            lambda q, k, v: heads_first(q, k, v, root, causal[None, None, None]),
            q,
            k,
            v,
        ),
        imported(
            "torch_sdpa_grouped_queries",
            V2,
            lambda q, k, v: attend(q.reshape(2, 2, 4, 16, 8), k, v, 0.3).reshape(q.shape),
            *grouped,
        ),
        imported(
            "jax_dot_product_attention_mask",
            V1,
            lambda q, k, v, m: heads_last(q, k, v, root, np.where(m, 0.0, -1e38)[:, :, None]),
            *last,
            keep,
        ),
        imported(
            "onnx_additive_mask",
            V1,
            lambda q, k, v, m: heads_first(
                q, k, v, 0.4, np.maximum(m, -1e38)[:, :, None]
            ).transpose(0, 2, 1, 3),
            q,
            k,
            v,
            padding.astype(np.float32),
        ),
        imported(
            "transformers_eager_f16",
            V1,
            lambda q, k, v, m: heads_first(q, k, v, 0.25, m[:, :, None]).transpose(0, 2, 1, 3),
            *narrow,
            np.where(keep, 0.0, -100.0).astype(np.float16),
        ),
    ]


def cases() -> list[Case]:
    return [
        make("plain_f32", writing="parts"),
        make("plain_f16", dtype="f16"),
        make("plain_bf16", dtype="bf16", writing="divided"),
        make("odd_sizes", "odd", writing="on_q on_k", scale=-0.7),
        make("grouped", "grouped", writing="swapped parts"),
        make("grouped_causal_f16", "grouped", dtype="f16", mask="causal"),
        make("shared_heads_boolean", "shared", mask="boolean"),
        make("long_causal", "long", mask="causal", zero=True),
        make("window_with_closed_rows", mask="window"),
        make("window_with_zero_rows", mask="window", zero=True),
        make("boolean_zero_bf16", "grouped", dtype="bf16", mask="boolean", zero=True),
        make("lowest", mask="lowest", writing="parts"),
        make("bias_bf16", "odd", dtype="bf16", mask="bias"),
        make("bias_zero", mask="bias", zero=True),
        make("dynamic_zero", dynamic=True, zero=True),
        make("dynamic_causal", dynamic=True, mask="causal", zero=True),
        make("dynamic_boolean_f16", "odd", dtype="f16", dynamic=True, mask="boolean", zero=True),
        *imports(),
    ]


CASES = {case.name: case for case in cases()}


@pytest.fixture(scope="module")
def outcomes():
    return Batch(cases=list(CASES.values()), pipeline=ALL, switches=ON).run()


@pytest.mark.parametrize("name", CASES)
def test_attention(name, outcomes):
    outcomes[name].check()
