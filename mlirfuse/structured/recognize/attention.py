"""Recognition of attention: `softmax(scale * q k^T + mask) v`, in any writing.

The two contractions may be named or generic, in either order of operands; the scale may multiply
or divide q, k or the product; the mask may be added or selected; the softmax may be one op or its
parts. Reshapes, transposes, broadcasts and widening casts of q, k, v and of the result become
indexing maps of the attention, with a dimension of its own for every part of a split loop.
"""

from __future__ import annotations

import dataclasses
import itertools

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.structured.expr import reshapes, upstream_math
from mlirfuse.structured.expr.arithmetic import constant_factor
from mlirfuse.structured.expr.expressions import number, start
from mlirfuse.structured.expr.loop_domains import Domain, SizeOf, common_domain, holds
from mlirfuse.structured.expr.nodes import Apply, Base, Element, Expr, Index, Lin, Loop
from mlirfuse.structured.ir import analysis_cache, ops
from mlirfuse.structured.recognize import mask_analysis, mask_logic, masks
from mlirfuse.structured.recognize.scores import (
    NearScores,
    Product,
    find_product,
    find_scores,
)
from mlirfuse.structured.recognize.softmax import Softmax, all_closed, find_softmax

VIEW_STEPS = 16
"""Ops between a contraction and the tensor in memory that are looked through."""


_BITS = {"f16": 16, "bf16": 16, "f32": 32}


@dataclasses.dataclass(frozen=True, slots=True)
class Operand:
    """A tensor of the attention: the value, and the dimensions of the domain for each of its axes.

    An axis of size one has no dimension; an axis that a reshape joined has several, major first.
    """

    value: ir.Value
    axes: tuple[tuple[int, ...], ...]

    @property
    def dims(self) -> set[int]:
        """The dimensions that index the tensor."""
        return {d for axis in self.axes for d in axis}


@dataclasses.dataclass(frozen=True, slots=True)
class Attention:
    """A recognized attention.

    Attributes:
      first: the contraction of q and k.
      final: the op whose result it computes.
      q: the queries.
      k: the keys.
      v: the values.
      result: how the final op's result is indexed.
      domain: the dimensions, in the order batch, queries, n, k1, keys.
      scale: the factor of the product of q and k.
      mask: what is added to the scores, f32, or where they are kept, i1; None for nothing.
      closed: a row where this is true throughout gives zero, i1; None when there is none.
      open: an element of the result is zero where this one is false, i1; None when there is none.
    """

    first: ir.Operation
    final: ir.Operation
    q: Operand
    k: Operand
    v: Operand
    result: Operand
    domain: Domain
    scale: float
    mask: Expr | None
    closed: Expr | None
    open: Element | None

    @property
    def k1(self) -> int:
        """The dimension that q and k contract."""
        return len(self.domain.dims) - 2

    @property
    def key(self) -> int:
        """The dimension that the softmax runs over."""
        return len(self.domain.dims) - 1

    @property
    def dynamic_keys(self) -> bool:
        """Whether the number of keys is dynamic."""
        return self.domain.dims[self.key].size is None

    @property
    def of_queries(self) -> frozenset[int]:
        """The dimensions of the rows: those of q and the result that neither k nor v has."""
        return frozenset((self.q.dims & self.result.dims) - self.k.dims - self.v.dims)

    @property
    def of_heads(self) -> frozenset[int]:
        """The dimension that q and k contract, and those that v has and k has not."""
        return frozenset({self.k1} | (self.v.dims - self.k.dims))

    @property
    def mask_tensors(self) -> tuple[Element, ...]:
        """The elements that the mask reads from memory, each tensor once per way of indexing."""
        found = masks.leaves(self.mask) if self.mask is not None else ()
        return tuple(dict.fromkeys(leaf for leaf in found if isinstance(leaf, Element)))


@dataclasses.dataclass(frozen=True, slots=True)
class NearAttention:
    """A computation that is attention up to one fact; `masked` when it has a mask."""

    masked: bool
    refusal: NoMatch


def may_end_attention(root: ir.Operation) -> bool:
    """Whether the op is a contraction with an exponential above it: most are not."""
    values = root.operands if ops.is_contraction(root) else ()
    return any(upstream_math.holds(value, upstream_math.EXPONENTIAL) for value in values)


@analysis_cache.until_change
def find_attention(root: ir.Operation) -> Attention | NearAttention | None:
    """Recognizes the attention whose contraction with v is `root`.

    A transpose or narrowing cast that follows comes along when the result stays contiguous in v's
    last dimension, and a select of the result or zero: IREE takes PyTorch's zeros for masked rows
    out of the weights when one condition decides for all rows.
    """
    product = find_product(start(root.results[0]))
    if product is None:
        return None
    if not any(find_softmax(side, product.loop) for side in (product.a, product.b)):
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
    """The ops whose result may be computed in place of the contraction's, furthest first."""
    chain = [root]
    while True:
        readers = list(chain[-1].results[0].uses)
        if len(readers) != 1:
            break
        op = readers[0].owner.operation
        if op.block != root.block or not (op.name in ops.RESHAPES or _moves(op) or _closes(op)):
            break
        chain.append(op)
    return [op for op in reversed(chain) if op == root or op.name not in ops.RESHAPES]


def _moves(op: ir.Operation) -> bool:
    """Whether the op moves or narrows the elements of one tensor."""
    if not ops.is_elementwise(op) or ops.num_inputs(op) != 1 or len(op.results) != 1:
        return False
    names = [o.operation.name for o in ops.body(op).operations]
    return ops.is_projection(op) or names == ["arith.truncf", "linalg.yield"]


def _closes(op: ir.Operation) -> bool:
    """Whether the op selects, and no more."""
    if not ops.is_elementwise(op) or len(op.results) != 1:
        return False
    return [o.operation.name for o in ops.body(op).operations] == ["arith.select", "linalg.yield"]


def _find(final: ir.Operation, root: ir.Operation) -> Attention | NearAttention | None:
    expr: Expr = start(final.results[0])
    open_at: Element | None = None
    while not (isinstance(expr, Element) and ops.defining_op(expr.value) == root):
        step = reshapes.step(expr) if isinstance(expr, Element) else None
        if isinstance(expr, Apply) and expr.op == "arith.truncf":
            step = expr.args[0]
        if isinstance(expr, Apply) and expr.op == "arith.select" and open_at is None:
            condition, taken, other = expr.args
            if isinstance(condition, Element) and number(other) == 0:
                open_at, step = condition, taken
        if step is None:
            return None
        expr = step
    product = find_product(expr)
    if product is None:
        return None
    for weights, v in ((product.a, product.b), (product.b, product.a)):
        softmax = find_softmax(weights, product.loop)
        if softmax is not None:
            return _attention(final, product, softmax, weights, v, open_at)
    return None


def _attention(
    final: ir.Operation,
    product: Product,
    softmax: Softmax,
    weights: Element,
    v: Element,
    open_at: Element | None,
) -> Attention | NearAttention | None:
    key = product.loop
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
    closed: Expr | None = None
    if softmax.zero_if is not None:
        if not all_closed(softmax.zero_if, softmax.scores, key):
            other = NoMatch(Reason.STRUCTURE, "the softmax is zeroed on other rows than -inf's")
            return NearAttention(mask is not None, other)
        closed = None if mask is None else mask_analysis.closed_rows(mask, key, size_of)
    indices += [] if open_at is None else open_at.index
    plan = _Plan(final, key, scores.loop, indices, size_of)
    kept_bits = min(_bits(final.results[0]), _bits(weights.value))
    refusal: NoMatch | None = None
    for q, k, values in itertools.product(
        _views(scores.q, scores.loop), _views(scores.k, scores.loop), _views(v, None)
    ):
        read = (q.element, k.element, values.element)
        if not _types_agree([e.value for e in read], kept_bits):
            continue
        domain = plan.domain(*read)
        if isinstance(domain, Domain):
            return Attention(
                first=scores.first,
                final=final,
                q=_operand(domain, q.element),
                k=_operand(domain, k.element),
                v=_operand(domain, values.element),
                result=_operand(domain, start(final.results[0])),
                domain=domain,
                scale=scores.scale * q.scale * k.scale,
                mask=mask,
                closed=closed,
                open=open_at,
            )
        refusal = refusal or domain
    if refusal is None:
        kinds = ", ".join(ops.element_type(e.value) for e in (scores.q, scores.k, v))
        refusal = NoMatch(Reason.ELEMENT_TYPE, f"q, k and v are {kinds}")
    return NearAttention(mask is not None, refusal)


def _mask(expr: Expr, size_of: SizeOf) -> Expr | None:
    """The mask as the group computes it: i1 where it only masks, else f32; None for nothing."""
    found = mask_analysis.settled(expr, size_of)
    found = masks.kept(found) or masks.bounded(found)
    return None if found == mask_logic.TRUE else found


def _operand(domain: Domain, element: Element) -> Operand:
    return Operand(element.value, tuple(domain.of(index) for index in element.index))


@dataclasses.dataclass(frozen=True, slots=True)
class _View:
    """A tensor from which an operand can be read, and the factor left out in doing so."""

    element: Element
    scale: float


def _views(element: Element, contracted: Loop | None) -> list[_View]:
    """The tensors that an operand is a view of, best first.

    Widening casts are looked through too, and constant factors when the operand is contracted with
    another before the softmax. Better is a narrower type, then the contracted loop as the last
    index, then one index for each loop, then further up.
    """
    found = [_View(element, 1.0)]
    expr: Expr = element
    factor = 1.0
    for _ in range(VIEW_STEPS):
        step: Expr | None = None
        if isinstance(expr, Element):
            step = reshapes.step(expr)
        elif isinstance(expr, Apply) and expr.op == "arith.extf":
            step = expr.args[0]
        elif isinstance(expr, Apply) and expr.op in ("arith.mulf", "arith.divf"):
            taken = constant_factor(expr) if contracted is not None else None
            if taken is not None:
                step, factor = taken[0], factor * taken[1]
        if step is None:
            break
        expr = step
        if isinstance(expr, Element):
            found.append(_View(expr, factor))

    def rank(view: _View) -> tuple[int, bool, bool]:
        index = view.element.index
        inner = contracted is None or index[-1:] == (contracted,)
        return _bits(view.element.value), not inner, any(isinstance(i, Lin) for i in index)

    return sorted(reversed(found), key=rank)


def _bits(value: ir.Value) -> int:
    return _BITS.get(ops.element_type(value), 64)


def _types_agree(read: list[ir.Value], kept_bits: int) -> bool:
    """Whether one attention can read q, k and v.

    It rounds the weights to v's type. That must lose nothing that the graph keeps, which rounds
    them, or the result, to `kept_bits`.
    """
    return len({ops.element_type(v) for v in read}) == 1 and kept_bits <= _bits(read[-1])


_ROLES = {"qkvo": "batch", "qo": "m", "vo": "n", "qk": "k1", "kv": "key"}
"""Which of q, k, v and the output a dimension indexes -> what it is."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Plan:
    """What the dimensions follow from, apart from the chosen views."""

    final: ir.Operation
    key: Loop
    k1: Loop
    mask: list[Index]
    size_of: SizeOf

    def domain(self, q: Element, k: Element, v: Element) -> Domain | NoMatch:
        """The dimensions in the order of `Attention`, or why they are not an attention's."""
        out = start(self.final.results[0])
        parts = (q, k, v, out)
        indices = [*(index for part in parts for index in part.index), *self.mask]
        domain = common_domain(indices, self.size_of)
        if domain is None:
            return NoMatch(
                Reason.INDEXING_MAP, "reshapes split a dimension in ways that do not nest"
            )
        read = [[d for index in part.index for d in domain.of(index)] for part in parts]
        kinds: dict[str, list[int]] = {role: [] for role in _ROLES.values()}
        # Batch and query dimensions keep the order of the result.
        for d in dict.fromkeys([*read[3], *range(len(domain.dims))]):
            users = "".join(name for name, dims in zip("qkvo", read, strict=True) if d in dims)
            if users not in _ROLES:
                return NoMatch(Reason.INDEXING_MAP, f"a dimension of {', '.join(users)} alone")
            kinds[_ROLES[users]].append(d)
        if any(len(set(dims)) != len(dims) for dims in read):
            return NoMatch(Reason.INDEXING_MAP, "an operand reads a diagonal")
        for role, base in (("k1", self.k1), ("key", self.key)):
            if len(kinds[role]) != 1 or domain.of(base) != tuple(kinds[role]):
                return NoMatch(
                    Reason.INDEXING_MAP, f"{len(kinds[role])} dimensions in place of one"
                )
        if not kinds["m"] or not kinds["n"]:
            return NoMatch(Reason.STRUCTURE, "a single query, or a head of size one")
        return domain.reordered(d for role in kinds.values() for d in role)
