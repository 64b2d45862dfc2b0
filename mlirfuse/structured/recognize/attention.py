"""Recognition of attention: `softmax(scale * q k^T + mask) v`, however it is written.

The scores may have a soft cap: `scale * tanh(cap * q k^T) + mask`.

The two contractions may be named or generic, with operands in either order. The scale may multiply
or divide q, k or the scores. The mask may be added or selected. The softmax may be one op or
decomposed. Reshapes, transposes, broadcasts and widening casts of q, k, v and of the result become
indexing maps of the attention, with a dimension for every digit of a split loop.
"""

from __future__ import annotations

import dataclasses
import itertools

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.structured.expr import reshapes, upstream_math
from mlirfuse.structured.expr.expressions import number, start
from mlirfuse.structured.expr.loop_domains import Domain, SizeOf, holds
from mlirfuse.structured.expr.nodes import Apply, Base, Element, Expr
from mlirfuse.structured.ir import analysis_cache, ops
from mlirfuse.structured.recognize import mask_analysis, mask_logic, masks
from mlirfuse.structured.recognize.attention_operands import (
    DomainBuilder,
    Operand,
    bits_of,
    operand_of,
    types_agree,
    views,
)
from mlirfuse.structured.recognize.scores import (
    Contraction,
    NearScores,
    find_contraction,
    find_scores,
)
from mlirfuse.structured.recognize.softmax import (
    Softmax,
    find_softmax,
    tests_fully_masked,
    tests_nan,
    tests_unmasked,
)


@dataclasses.dataclass(frozen=True, slots=True)
class Attention:
    """A recognized attention.

    Attributes:
      qk: the contraction of q and k.
      final: the op whose result the attention computes.
      q: queries.
      k: keys.
      v: values.
      result: result of the final op.
      domain: dimensions, in the order batch, queries, n, k1, keys.
      scale: factor of q k^T, or of its tanh.
      cap: factor of q k^T inside a tanh, a soft cap of the scores; None without one.
      mask: addend of the scores, f32, or condition that keeps them, i1; None without a mask.
      masked: condition, i1; a row of the result is zero if it is true at every key. None without
        one.
      nonzero: condition, i1; an element of the result is zero if it is false. None without one.
      tests_mask: whether `nonzero` says that the mask leaves one score of the row.
    """

    qk: ir.Operation
    final: ir.Operation
    q: Operand
    k: Operand
    v: Operand
    result: Operand
    domain: Domain
    scale: float
    cap: float | None
    mask: Expr | None
    masked: Expr | None
    nonzero: Element | None
    tests_mask: bool = False

    @property
    def k1(self) -> int:
        """The dimension over which q and k are contracted."""
        return len(self.domain.dims) - 2

    @property
    def key(self) -> int:
        """The dimension over which the softmax normalizes."""
        return len(self.domain.dims) - 1

    @property
    def dynamic_keys(self) -> bool:
        """Whether the number of keys is dynamic."""
        return self.domain.dims[self.key].size is None

    @property
    def query_dims(self) -> frozenset[int]:
        """The dimensions of queries: those of q and the result, but not of k and v."""
        found = frozenset((self.q.dims & self.result.dims) - self.k.dims - self.v.dims)
        return found if self.single_query is None else frozenset({self.single_query})

    @property
    def single_query(self) -> int | None:
        """The dimension of a single query, which no tensor has; None where there are several."""
        return next((d for d, dim in enumerate(self.domain.dims) if dim.size == 1), None)

    @property
    def head_dims(self) -> frozenset[int]:
        """The dimensions of heads: k1, and those of v, but not of k."""
        return frozenset({self.k1} | (self.v.dims - self.k.dims))

    @property
    def mask_tensors(self) -> tuple[Element, ...]:
        """The elements that the mask reads from memory, each tensor once per index."""
        found = masks.leaves(self.mask) if self.mask is not None else ()
        return tuple(dict.fromkeys(leaf for leaf in found if isinstance(leaf, Element)))


@dataclasses.dataclass(frozen=True, slots=True)
class NearAttention:
    """A computation that is attention except for one fact.

    Attributes:
      masked: whether it has a mask.
      refusal: the fact.
    """

    masked: bool
    refusal: NoMatch


def may_end_attention(root: ir.Operation) -> bool:
    """Whether the op is a contraction with an exponential upstream: a fast filter."""
    values = root.operands if ops.is_contraction(root) else ()
    return any(upstream_math.holds(value, upstream_math.EXPONENTIAL) for value in values)


@analysis_cache.until_change
def find_attention(root: ir.Operation) -> Attention | NearAttention | None:
    """Recognizes the attention whose contraction with v is `root`.

    The attention includes a transpose or narrowing cast of the result that keeps v's last dimension
    contiguous, and a select between the result and zero: IREE hoists PyTorch's zeros for masked
    rows out of the weights if the condition does not vary over keys.
    """
    contraction = find_contraction(start(root.results[0]))
    if contraction is None:
        return None
    if not any(find_softmax(side, contraction.loop) for side in (contraction.a, contraction.b)):
        return None
    near: NearAttention | None = None
    for final in _finals(root):
        found = _find(final, root)
        if isinstance(found, NearAttention):
            near = near or found
        elif found is not None and (final == root or _contiguous(found)):
            return found
    return near


def _contiguous(found: Attention) -> bool:
    return bool(set(found.result.axes[-1]) & (found.v.dims - found.k.dims))


def _finals(root: ir.Operation) -> list[ir.Operation]:
    """The ops whose result the attention may compute instead of the contraction's, last first."""
    chain = [root]
    while True:
        uses = list(chain[-1].results[0].uses)
        if len(uses) != 1:
            break
        op = uses[0].owner.operation
        if op.block != root.block or not (op.name in ops.RESHAPES or _moves(op) or _selects(op)):
            break
        chain.append(op)
    return [op for op in reversed(chain) if op == root or op.name not in ops.RESHAPES]


def _moves(op: ir.Operation) -> bool:
    """Whether the op only permutes or truncates the elements of one tensor."""
    if not ops.is_elementwise(op) or ops.num_inputs(op) != 1 or len(op.results) != 1:
        return False
    names = [o.operation.name for o in ops.body(op).operations]
    return ops.is_projection(op) or names == ["arith.truncf", "linalg.yield"]


def _selects(op: ir.Operation) -> bool:
    """Whether the op is one elementwise select."""
    if not ops.is_elementwise(op) or len(op.results) != 1:
        return False
    return [o.operation.name for o in ops.body(op).operations] == ["arith.select", "linalg.yield"]


def _find(final: ir.Operation, root: ir.Operation) -> Attention | NearAttention | None:
    expr: Expr = start(final.results[0])
    nonzero: Element | None = None
    while not (isinstance(expr, Element) and ops.defining_op(expr.value) == root):
        step = reshapes.step(expr) if isinstance(expr, Element) else None
        if isinstance(expr, Apply) and expr.op == "arith.truncf":
            step = expr.args[0]
        if isinstance(expr, Apply) and expr.op == "arith.select" and nonzero is None:
            condition, taken, other = expr.args
            if isinstance(condition, Element) and number(other) == 0:
                nonzero, step = condition, taken
        if step is None:
            return None
        expr = step
    contraction = find_contraction(expr)
    if contraction is None:
        return None
    for weights, v in ((contraction.a, contraction.b), (contraction.b, contraction.a)):
        softmax = find_softmax(weights, contraction.loop)
        if softmax is not None:
            return _attention(final, contraction, softmax, weights, v, nonzero)
    return None


def _attention(
    final: ir.Operation,
    contraction: Contraction,
    softmax: Softmax,
    weights: Element,
    v: Element,
    nonzero: Element | None,
) -> Attention | NearAttention | None:
    key = contraction.loop
    scores = find_scores(softmax.scores, key)
    if scores is None:
        return None
    if isinstance(scores, NearScores):
        return NearAttention(scores.masked, scores.refusal)
    sizes = ops.shape(final.results[0])

    def size_of(base: Base) -> int | None:
        return sizes[base] if isinstance(base, int) else base.size

    mask = None if scores.mask is None else _mask(scores.mask, size_of)
    indices = [] if mask is None else list(masks.indices(mask))
    if mask is not None and not any(holds(index, key) for index in indices):
        return NearAttention(
            True, NoMatch(Reason.WRONG_AXIS, "the mask does not vary with the keys")
        )
    masked: Expr | None = None
    if softmax.zero_if is not None:
        tested = (softmax.zero_if, softmax.scores, key)
        if not tests_fully_masked(*tested) and not tests_nan(*tested):
            other = NoMatch(
                Reason.STRUCTURE, "the softmax is zeroed on other rows than those of -inf"
            )
            return NearAttention(mask is not None, other)
        masked = None if mask is None else mask_analysis.masked_rows(mask, key, size_of)
    indices += [] if nonzero is None else nonzero.index
    builder = DomainBuilder(final, key, scores.loop, indices, size_of)
    kept_bits = min(bits_of(final.results[0]), bits_of(weights.value))
    refusal: NoMatch | None = None
    for q, k, values in itertools.product(
        views(scores.q, scores.loop), views(scores.k, scores.loop), views(v, None)
    ):
        read = (q.element, k.element, values.element)
        if not types_agree([e.value for e in read], kept_bits):
            continue
        domain = builder.domain(*read)
        if isinstance(domain, Domain):
            inner, cap = q.scale * k.scale, scores.cap
            return Attention(
                qk=scores.qk,
                final=final,
                q=operand_of(domain, q.element),
                k=operand_of(domain, k.element),
                v=operand_of(domain, values.element),
                result=operand_of(domain, start(final.results[0])),
                domain=domain,
                scale=scores.scale * inner if cap is None else scores.scale,
                cap=None if cap is None else cap * inner,
                mask=mask,
                masked=masked,
                nonzero=nonzero,
                tests_mask=nonzero is not None
                and scores.mask is not None
                and tests_unmasked(nonzero, scores.mask, mask, key),
            )
        refusal = refusal or domain
    if refusal is None:
        kinds = ", ".join(ops.element_type(e.value) for e in (scores.q, scores.k, v))
        refusal = NoMatch(Reason.ELEMENT_TYPE, f"q, k and v are {kinds}")
    return NearAttention(mask is not None, refusal)


def _mask(expr: Expr, size_of: SizeOf) -> Expr | None:
    """The mask as the group computes it: i1 if boolean, else f32; None if it masks nothing."""
    found = mask_analysis.simplified(expr, size_of)
    found = masks.as_boolean(found) or masks.bounded(found)
    return None if found == mask_logic.TRUE else found
