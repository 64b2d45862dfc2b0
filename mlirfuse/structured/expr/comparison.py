"""Comparison of expressions by structure, up to reduction loops."""

from __future__ import annotations

from typing import TypeAlias

from mlirfuse.structured.expr.expressions import define
from mlirfuse.structured.expr.nodes import (
    Apply,
    Const,
    Element,
    Expr,
    Index,
    IndexOf,
    Lin,
    Loop,
    Opaque,
    Part,
    Reduce,
)

MAX_COMPARED_PAIRS = 1000
"""Pairs of nodes that `same` compares before it answers no."""

MAX_COMPARED_DEPTH = 150
"""Nesting depth at which `same` answers no, well below Python's recursion limit."""

Binding: TypeAlias = dict[Loop, Index]
"""The index in one expression that each reduction loop of another one corresponds to."""


def same(a: Expr, b: Expr, binding: Binding | None = None) -> bool:
    """Whether two expressions compute the same number, up to the reduction loops in `binding`.

    An unbound loop of `a` is bound to the corresponding index of `b`; a bound loop must correspond
    to the same index everywhere. The comparison is structural: it uses no algebra, but sees through
    broadcasts, reshapes and duplicated computations. The binding stays unchanged when the answer is
    no, which is also the answer past `MAX_COMPARED_PAIRS` or `MAX_COMPARED_DEPTH`.
    """
    trial = _Comparison({} if binding is None else dict(binding))
    if not trial.same(a, b, 0):
        return False
    if binding is not None:
        binding.update(trial.binding)
    return True


class _Comparison:
    """One comparison. A pair found equal remains equal, since bindings are only added."""

    def __init__(self, binding: Binding) -> None:
        self.binding = binding
        # Keyed by object identity: the caches of the elements keep every node alive.
        self.equal: set[tuple[int, int]] = set()

    def same(self, a: Expr, b: Expr, depth: int) -> bool:
        if isinstance(a, Element) and isinstance(b, Element) and a.value == b.value:
            before = dict(self.binding)
            if self.indices(a.index, b.index):
                return True
            self.binding = before
        a, b = define(a), define(b)
        pair = (id(a), id(b))
        if pair in self.equal:
            return True
        if depth > MAX_COMPARED_DEPTH or len(self.equal) > MAX_COMPARED_PAIRS:
            return False
        equal = self.nodes(a, b, depth + 1)
        if equal:
            self.equal.add(pair)
        return equal

    def nodes(self, a: Expr, b: Expr, depth: int) -> bool:
        if isinstance(a, Element) and isinstance(b, Element):
            return a.value == b.value and self.indices(a.index, b.index)
        if isinstance(a, IndexOf) and isinstance(b, IndexOf):
            return self.index(a.index, b.index)
        if isinstance(a, Apply) and isinstance(b, Apply):
            if (a.op, a.predicate, a.type, len(a.args)) != (b.op, b.predicate, b.type, len(b.args)):
                return False
            return all(self.same(x, y, depth) for x, y in zip(a.args, b.args, strict=True))
        if isinstance(a, Reduce) and isinstance(b, Reduce):
            return self.reductions(a, b, depth)
        return isinstance(a, Const | Opaque) and a == b

    def reductions(self, a: Reduce, b: Reduce, depth: int) -> bool:
        if a.combiner != b.combiner or len(a.loops) != len(b.loops):
            return False
        if [loop.size for loop in a.loops] != [loop.size for loop in b.loops]:
            return False
        if not self.same(a.init, b.init, depth):
            return False
        outer = {loop: self.binding[loop] for loop in a.loops if loop in self.binding}
        self.binding.update(zip(a.loops, b.loops, strict=True))
        equal = self.same(a.arg, b.arg, depth)
        for loop in a.loops:
            del self.binding[loop]
        self.binding.update(outer)
        return equal

    def indices(self, a: tuple[Index, ...], b: tuple[Index, ...]) -> bool:
        return len(a) == len(b) and all(self.index(i, j) for i, j in zip(a, b, strict=True))

    def index(self, a: Index, b: Index) -> bool:
        if isinstance(a, Loop):
            return self.binding.setdefault(a, b) == b
        if isinstance(a, Lin) and isinstance(b, Lin):
            return a.sizes == b.sizes and self.indices(a.parts, b.parts)
        if isinstance(a, Part) and isinstance(b, Part):
            return (a.position, a.sizes) == (b.position, b.sizes) and self.index(a.index, b.index)
        return a == b
