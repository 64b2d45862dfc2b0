"""Compute the elements that a gather reads, in place of the whole tensor.

    %t = linalg.generic {subf} ins(%x, %m)             tensor<NxCxT>, of which a loss reads N
    %y = linalg.generic { tensor.extract %t[n, %c] }   tensor<NxT>
  becomes
    %y = linalg.generic ins(%m) { subf (tensor.extract %x[n, %c]), %m }

The cross-entropy of logits is then no log-softmax that is written and read again. Root: a generic
that extracts elements of a tensor which elementwise ops compute, at most half as many as it has,
and which gathers alone read. Ops are computed again up to tensors that are in memory anyway, or
that are no larger; constant data stays as it is. A kernel for a GPU also computes elements that it
reads more often, from tensors that the function is given, where that takes less time than to write
and read the tensor: the activation in front of a flip, a reflected border or a larger image.
Static sizes; bodies of arithmetic only. Numerics: exact.
Source: fusion of producers into `tensor.extract`, as TorchInductor computes indirect loads.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.core import FusionPass, Kind, Match, Numerics, PassContext
from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.alignment import VIEWS
from mlirfuse.kernels.codegen.instructions import instructions, is_repeated_cheaply
from mlirfuse.structured.ir import fusable_neighbors, ops
from mlirfuse.structured.recognize import gathers

_EXTRACT = "tensor.extract"

MAX_OPS = 32
"""Ops that a gather computes again, each once: more than any activation has."""

LOAD_INSTRUCTIONS = 8
"""Instructions of one more load at a computed index, an estimate."""

_Key = tuple[ir.Value, tuple[int, ...]]
"""A tensor, and for each of its dimensions the number of the gather's index."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Element:
    """An element of a tensor at some of a gather's indices.

    Attributes:
      value: the tensor.
      indices: for each of its dimensions, the number of the index.
      parts: the elements from which it is computed again; None where it is read.
    """

    value: ir.Value
    indices: tuple[int, ...]
    parts: tuple[_Element, ...] | None = None

    @property
    def key(self) -> _Key:
        """The tensor and the indices: the same element has the same ones."""
        return self.value, self.indices

    def leaves(self) -> list[_Element]:
        """The elements that are read."""
        found: dict[_Key, _Element] = {}
        self._visit(found)
        return [element for element in found.values() if element.parts is None]

    def computed(self) -> list[_Element]:
        """The elements that are computed, each once."""
        found: dict[_Key, _Element] = {}
        self._visit(found)
        return [element for element in found.values() if element.parts is not None]

    def _visit(self, found: dict[_Key, _Element]) -> None:
        if self.key not in found:
            found[self.key] = self
            for part in self.parts or ():
                part._visit(found)


Elements = dict[ir.Operation, _Element]
"""`tensor.extract` in the root's body -> the element."""


def match(root: ir.Operation, ctx: PassContext) -> Match | None:
    """Finds the elements that the root's body can compute."""
    if ops.in_region(root):
        return None
    found: Elements = {}
    for op in ops.nested_ops(root):
        if op.name == _EXTRACT and op.parent.operation == root:
            element = _computed(root, op, ctx)
            if element is not None:
                found[op] = element
    return Match(root, (root,), found) if found else None


def _computed(root: ir.Operation, extract: ir.Operation, ctx: PassContext) -> _Element | None:
    value = extract.operands[0]
    producer = _producer(value)
    if producer is None or producer.block != root.block or None in ops.loop_sizes(root):
        return None
    if not _is_only_gathered(value):
        return None
    indices = tuple(range(len(ops.shape(value))))
    element = _grown(_Element(value, indices), {})
    if element.parts is None:
        return None
    if 2 * _reads(root) > ops.num_elements(value) and not (
        triton_compiler.supports(ctx.target) and _is_cheap(element)
    ):
        return None
    kept = [leaf.value for leaf in element.leaves() if leaf.value != value]
    larger = any(
        ops.num_bytes(leaf) > ops.num_bytes(value) and not _is_in_memory(leaf, producer)
        for leaf in kept
    )
    return None if larger else element


def _reads(gather: ir.Operation) -> int:
    """The times that a gather reads an element, which has a static iteration space."""
    return math.prod(size or 0 for size in ops.loop_sizes(gather))


def _is_cheap(element: _Element) -> bool:
    """Whether all gathers of a tensor compute it in less time than it takes to write and read it.

    They read tensors that the function is given: no op that computes one of them has this one as
    its epilogue, as a contraction or a norm may.
    """
    times = gathers.times_read(element.value)
    if times is None:
        return False
    leaves = element.leaves()
    if not all(_is_given(leaf.value) for leaf in leaves):
        return False
    short = ops.element_bits(element.value) <= 16
    producers = (_producer(each.value) for each in element.computed())
    each = sum(instructions(op, short=short) for op in producers if op is not None)
    each += LOAD_INSTRUCTIONS * (len(leaves) - 1)
    return is_repeated_cheaply(each, times, ops.num_bytes(element.value))


def _is_given(value: ir.Value) -> bool:
    """Whether a tensor is an argument of the function, constant data, or a view of such a one."""
    op = ops.defining_op(ops.strip_views(value, VIEWS))
    return op is None or op.name == "hal.tensor.import" or ops.is_constant_data(value)


def _is_only_gathered(value: ir.Value) -> bool:
    """Whether all users of a tensor extract elements of it."""
    return all(user.name == _EXTRACT for user in ops.users(value))


def _grown(element: _Element, grown: dict[_Key, _Element]) -> _Element:
    """The element, computed from those that its producer reads, and these from others.

    Args:
      element: the element.
      grown: the elements that are computed so far, at most `MAX_OPS`.
    """
    if element.key in grown:
        return grown[element.key]
    producer = _producer(element.value)
    if producer is None or len(grown) >= MAX_OPS:
        return element
    grown[element.key] = element  # Counts while its parts grow; no tensor is computed from itself.
    results = ops.plain_maps(producer)[ops.num_inputs(producer)]
    position = dict(zip(results, element.indices, strict=True))
    parts = tuple(
        _grown(_Element(value, tuple(position[loop] for loop in read)), grown)
        for value, read in zip(ops.inputs(producer), ops.plain_maps(producer), strict=False)
    )
    grown[element.key] = dataclasses.replace(element, parts=parts)
    return grown[element.key]


def _producer(value: ir.Value) -> ir.Operation | None:
    """The elementwise op that computes a tensor and can be computed again in a gather."""
    op = ops.defining_op(value)
    if op is None or not gathers.computes_any_element(op):
        return None
    if all(map(ops.is_constant_data, ops.inputs(op))):
        return None  # computed once, at load time; or from its indices alone
    return op if fusable_neighbors.has_scalar_body(op) else None


def _is_in_memory(value: ir.Value, user: ir.Operation) -> bool:
    """Whether a tensor is in memory whatever its user does."""
    op = ops.defining_op(value)
    return op is None or ops.is_constant_data(value) or any(u != user for u in ops.users(value))


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Builds the op that computes the elements which it read."""
    op: ir.Operation = match.root
    elements: Elements = match.data
    reads: dict[_Key, int] = {}
    for extract, element in elements.items():
        for leaf in element.leaves():
            loops = _loops(extract, leaf)
            if loops is not None:
                reads.setdefault((leaf.value, loops), len(reads))
    maps, inputs = list(ops.plain_maps(op)), ops.num_inputs(op)
    extracts = [o for o in ops.nested_ops(op) if o.name == _EXTRACT]
    compute = builders.body_of(op)

    def body(arguments: list[ir.Value]) -> list[ir.Value]:
        own = [*arguments[:inputs], *arguments[inputs + len(reads) :]]
        return compute(own)

    with ir.InsertionPoint(op), op.location:
        new = builders.generic(
            [*ops.inputs(op), *(value for value, _ in reads)],
            ops.inits(op),
            [*maps[:inputs], *(loops for _, loops in reads), *maps[inputs:]],
            ops.iterator_types(op),
            body,
        )
    given = list(ops.body(new).arguments)[inputs:]
    copies = [o for o in ops.nested_ops(new) if o.name == _EXTRACT]
    for old, copy in zip(extracts, copies, strict=True):
        if old in elements:
            known = {read: given[number] for read, number in reads.items()}
            with ir.InsertionPoint(copy), copy.location:
                scalar = _scalar(elements[old], copy, known, {})
                copy.results[0].replace_all_uses_with(scalar)
            copy.erase()
    for result, replacement in zip(op.results, new.results, strict=True):
        result.replace_all_uses_with(replacement)
    op.erase()
    return new


def _scalar(
    element: _Element,
    extract: ir.Operation,
    known: dict[_Key, ir.Value],
    made: dict[_Key, ir.Value],
) -> ir.Value:
    """The scalar, at the current insertion point.

    Args:
      element: the element.
      extract: the op that read it, or reads the elements that it is computed from.
      known: the body's arguments by tensor and loops.
      made: the scalars that are built for this extract.
    """
    if element.key not in made:
        made[element.key] = _built(element, extract, known, made)
    return made[element.key]


def _built(
    element: _Element,
    extract: ir.Operation,
    known: dict[_Key, ir.Value],
    made: dict[_Key, ir.Value],
) -> ir.Value:
    if element.parts is not None:
        producer = ops.defining_op(element.value)
        assert producer is not None
        parts = [_scalar(part, extract, known, made) for part in element.parts]
        return builders.body_of(producer)([*parts, parts[0]])[0]
    loops = _loops(extract, element)
    if loops is not None:
        return known[element.value, loops]
    indices = [extract.operands[1 + number] for number in element.indices]
    return builders.extract(element.value, indices)


def _loops(extract: ir.Operation, element: _Element) -> tuple[int, ...] | None:
    """The loops of the root that are the element's indices; None where one is computed."""
    indices: Sequence[ir.Value] = list(extract.operands)[1:]
    found = [ops.defining_op(indices[number]) for number in element.indices]
    if any(op is None or op.name != "linalg.index" for op in found):
        return None
    return tuple(op.attributes["dim"].value for op in found if op is not None)


PASS = FusionPass(
    name="gathered_producer_rewrite",
    summary="A gather computes the elements that it reads of an elementwise result",
    roots=("linalg.generic",),
    match=match,
    rewrite=rewrite,
    numerics=Numerics.EXACT,
    kind=Kind.REWRITE,
    source="mlirfuse",
)
