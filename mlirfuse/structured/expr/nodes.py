"""Nodes of scalar expressions and of the indices in them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TypeAlias

from iree.compiler import ir

from mlirfuse.structured.ir import analysis_cache
from mlirfuse.structured.ir.analysis_cache import AnalysisCache


@dataclasses.dataclass(frozen=True, slots=True)
class Loop:
    """A loop of `op` that is not one of the starting element's dimensions."""

    op: ir.Operation
    dim: int
    size: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class Lin:
    """Row-major linearization of several indices."""

    parts: tuple[Index, ...]
    sizes: tuple[int | None, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """The digit of `index` at `position` in the mixed radix `sizes`."""

    index: Index
    position: int
    sizes: tuple[int | None, ...]


Index: TypeAlias = int | Loop | Lin | Part | None

Base: TypeAlias = int | Loop
"""A loop: a dimension of the starting element, or a loop of another op."""


def base_loops(index: Index) -> Iterator[Base]:
    """The loops that an index depends on, once for each digit of them."""
    if isinstance(index, int | Loop):
        yield index
    elif isinstance(index, Lin):
        for part in index.parts:
            yield from base_loops(part)
    elif isinstance(index, Part):
        yield from base_loops(index.index)


@dataclasses.dataclass(frozen=True, slots=True)
class Element:
    """One element of a tensor. An element and those it expands to share a cache."""

    value: ir.Value
    index: tuple[Index, ...]
    cache: AnalysisCache = dataclasses.field(
        default_factory=analysis_cache.current, compare=False, repr=False
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Const:
    """A compile-time number."""

    number: float | int
    type: str


@dataclasses.dataclass(frozen=True, slots=True)
class IndexOf:
    """The value of a loop index (`linalg.index`)."""

    index: Index


@dataclasses.dataclass(frozen=True, slots=True)
class Apply:
    """A scalar op on scalar operands, in the body of the structured op `owner`."""

    op: str
    args: tuple[Expr, ...]
    predicate: str
    type: str
    owner: ir.Operation
    digest: int = dataclasses.field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Computes the hash once: it covers the whole subtree."""
        key = (self.op, self.args, self.predicate, self.type, self.owner)
        object.__setattr__(self, "digest", hash(key))

    def __hash__(self) -> int:
        """The precomputed hash."""
        return self.digest


@dataclasses.dataclass(frozen=True, slots=True)
class Reduce:
    """The reduction of `arg` over `loops` with the scalar op `combiner`, starting at `init`."""

    combiner: str
    arg: Expr
    loops: tuple[Loop, ...]
    init: Expr
    owner: ir.Operation
    digest: int = dataclasses.field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Computes the hash once: it covers the whole subtree."""
        key = (self.combiner, self.arg, self.loops, self.init, self.owner)
        object.__setattr__(self, "digest", hash(key))

    def __hash__(self) -> int:
        """The precomputed hash."""
        return self.digest


@dataclasses.dataclass(frozen=True, slots=True)
class Opaque:
    """A scalar that the analysis does not understand."""

    value: ir.Value


Expr: TypeAlias = Element | Const | IndexOf | Apply | Reduce | Opaque
