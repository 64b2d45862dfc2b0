"""Operands of an attention: views of q, k and v, and the dimensions that they share."""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.structured.expr import reshapes
from mlirfuse.structured.expr.arithmetic import constant_factor
from mlirfuse.structured.expr.expressions import start
from mlirfuse.structured.expr.loop_domains import Domain, SizeOf, common_domain
from mlirfuse.structured.expr.nodes import Apply, Element, Expr, Index, Lin, Loop, Part
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize.permutations import transposed_order

MAX_VIEW_OPS = 16
"""Ops between a contraction and the tensor in memory that recognition looks through."""

_BITS = {"f16": 16, "bf16": 16, "f32": 32}


@dataclasses.dataclass(frozen=True, slots=True)
class Operand:
    """A tensor of the attention.

    Attributes:
      value: the tensor.
      axes: dimensions of the domain for each axis: none for an axis of size one, several, major
        first, for an axis that a reshape collapsed.
    """

    value: ir.Value
    axes: tuple[tuple[int, ...], ...]

    @property
    def dims(self) -> set[int]:
        """The dimensions that index the tensor."""
        return {d for axis in self.axes for d in axis}


def operand_of(domain: Domain, element: Element) -> Operand:
    """The operand with the dimensions of the domain that make up the element's indices."""
    return Operand(element.value, tuple(domain.of(index) for index in element.index))


@dataclasses.dataclass(frozen=True, slots=True)
class View:
    """A tensor from which an operand can be read.

    Attributes:
      element: an element of the tensor.
      scale: constant factor between the tensor and the operand.
    """

    element: Element
    scale: float


def views(element: Element, contracted: Loop | None) -> list[View]:
    """The tensors that an operand is a view of, best first.

    Recognition also looks through widening casts, and through constant factors of q and k. A view
    is better with a narrower element type, then with the contracted loop as the last index, then
    before more constant factors, before more transposes, without linearized indices, further
    upstream.

    Args:
      element: the operand.
      contracted: the loop over which q and k are contracted; None for v.
    """
    found = [(View(element, 1.0), 0, 0)]
    expr: Expr = element
    factor, factors, transposes = 1.0, 0, 0
    for _ in range(MAX_VIEW_OPS):
        step: Expr | None = None
        if isinstance(expr, Element):
            step = reshapes.step(expr)
            transposes += _is_transpose(ops.defining_op(expr.value))
        elif isinstance(expr, Apply) and expr.op == "arith.extf":
            step = expr.args[0]
        elif isinstance(expr, Apply) and expr.op in ("arith.mulf", "arith.divf"):
            taken = constant_factor(expr) if contracted is not None else None
            if taken is not None:
                step, factor, factors = taken[0], factor * taken[1], factors + 1
        if step is None:
            break
        expr = step
        if isinstance(expr, Element):
            found.append((View(expr, factor), factors, transposes))

    def rank(counted: tuple[View, int, int]) -> tuple[int, bool, int, int, bool]:
        view, skipped_factors, skipped_transposes = counted
        index = view.element.index
        inner = contracted is None or _fastest(index[-1] if index else None) == contracted
        linearized = any(isinstance(i, Lin) for i in index)
        return (
            bits_of(view.element.value),
            not inner,
            -skipped_factors,
            -skipped_transposes,
            linearized,
        )

    return [view for view, *_ in sorted(reversed(found), key=rank)]


def _fastest(index: Index) -> Index:
    """The loop that an index follows most closely: the last digit of its last digit."""
    if isinstance(index, Lin):
        return _fastest(index.parts[-1])
    if isinstance(index, Part) and index.position == len(index.sizes) - 1:
        return _fastest(index.index)
    return index


def _is_transpose(op: ir.Operation | None) -> bool:
    return op is not None and transposed_order(op) is not None


def bits_of(value: ir.Value) -> int:
    """Width of a floating-point element, in bits; 64 for any other type."""
    return _BITS.get(ops.element_type(value), 64)


def types_agree(read: list[ir.Value], kept_bits: int) -> bool:
    """Whether one attention can read q, k and v.

    It rounds the softmax weights to v's type, which must not be narrower than the `kept_bits` to
    which the graph rounds the weights or the result.
    """
    return len({ops.element_type(v) for v in read}) == 1 and kept_bits <= bits_of(read[-1])


_ROLES = {"qkvo": "batch", "qo": "m", "vo": "n", "qk": "k1", "kv": "key"}
"""Role of a dimension, by the tensors among q, k, v and the output that it indexes."""


@dataclasses.dataclass(frozen=True, slots=True)
class DomainBuilder:
    """Builds the domain of an attention for a choice of views.

    Attributes:
      final: the op whose result the attention computes.
      key: loop over keys.
      k1: loop over which q and k are contracted.
      mask: indices of the masks.
      size_of: trip count of each base loop.
    """

    final: ir.Operation
    key: Loop
    k1: Loop
    mask: list[Index]
    size_of: SizeOf

    def domain(self, q: Element, k: Element, v: Element) -> Domain | NoMatch:
        """The dimensions in the order of `Attention`, or a refusal."""
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
        if not kinds["n"]:
            return NoMatch(Reason.STRUCTURE, "a head of size one")
        if not kinds["m"]:
            domain = domain.with_unit()
            kinds["m"].append(len(domain.dims) - 1)
        return domain.reordered(d for role in kinds.values() for d in role)
