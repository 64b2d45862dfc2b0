"""Cache of analyses during a run, invalidated when a rewrite changes the ops that they depend on.

Passes ask the same questions about the same ops many times. An answer has one of three lifetimes:

  per_op         it depends on one op alone: its attributes, operands, body and constant operands.
                 It is valid until that op, or one in it, is rewritten or gets other operands.
  per_attribute  it depends on an attribute, which is immutable.
  until_change   it depends on an op and its surroundings. Any rewrite invalidates it.

The engine announces rewrites with `rewriting`. Outside a run nothing is cached: values do not keep
their module alive, and a value of another module can get the same address. The same holds within a
run: a new op can get the address of an erased one, so entries are invalidated before an op is
erased.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, TypeAlias, TypeVar

from iree.compiler import ir

StepKey: TypeAlias = tuple[ir.Value, tuple[Hashable, ...]]
"""An element of a tensor: the value and one index per dimension."""

Step: TypeAlias = Any
"""The definition of an element, an `Expr` of `structured.expr`, or None."""


class AnalysisCache:
    """The cached answers.

    Attributes:
      answers: those that last until any change, by function and question.
      of_ops: those about one op, by op and function.
      of_attributes: those about an attribute, by attribute and function.
      upstream: those about an op and everything it is computed from, by function and op.
      steps: the definition of an element by its producer; during a rewrite those found meanwhile.
      settled: during a rewrite, the steps from before it; otherwise empty.
      kept: answers that no rewrite invalidates.
      texts: parsed attributes and types, by kind, text and context.
      steps_of: by op, lists with the key of each step through the op, or over a loop of it. All ops
        of a step share its list, which is empty once the step is invalid: such a key cannot be
        hashed.
    """

    __slots__ = (
        "answers",
        "kept",
        "of_attributes",
        "of_ops",
        "settled",
        "steps",
        "steps_of",
        "texts",
        "upstream",
    )

    def __init__(self) -> None:
        self.kept: dict[Hashable, Any] = {}
        self.texts: dict[tuple[object, str, object], Any] = {}
        self.of_attributes: dict[tuple[ir.Attribute, object], Any] = {}
        self.clear()

    def clear(self) -> None:
        """Drops everything but the answers about attributes."""
        self.answers: dict[tuple[object, object], Any] = {}
        self.of_ops: dict[ir.Operation, dict[object, Any]] = {}
        self.upstream: dict[object, dict[ir.Operation, Any]] = {}
        self.steps: dict[StepKey, Step] = {}
        self.settled: dict[StepKey, Step] = {}
        self.steps_of: dict[ir.Operation, list[list[StepKey]]] = {}

    def invalidate(self, changed: Iterable[ir.Operation]) -> dict[StepKey, Step]:
        """Invalidates the entries of ops about to change; returns the steps through them.

        Those about the ops around them too: an op's answers count what its regions read.
        """
        self.answers = {}
        steps = {}
        around: dict[ir.Operation, None] = {}
        for op in changed:
            self.of_ops.pop(op, None)
            parent = op.parent
            while parent is not None and (outer := parent.operation) not in around:
                around[outer] = None
                parent = outer.parent
            for known in self.upstream.values():
                known.pop(op, None)
            for entry in self.steps_of.pop(op, ()):
                for key in entry:
                    steps[key] = self.steps.pop(key)
                entry.clear()
        for outer in around:
            self.of_ops.pop(outer, None)
        return steps

    def keep_step(self, key: StepKey, step: Step, depends_on: Iterable[ir.Operation]) -> None:
        """Caches the definition of an element until one of the ops changes."""
        self.steps[key] = step
        entry = [key]
        for op in depends_on:
            self.steps_of.setdefault(op, []).append(entry)


class _Shared(threading.local):
    """The cache of this thread's run, None outside a run; `of_ops` is None during a rewrite too."""

    def __init__(self) -> None:
        self.cache: AnalysisCache | None = None
        self.of_ops: dict[ir.Operation, dict[object, Any]] | None = None


_shared = _Shared()


def current() -> AnalysisCache:
    """The cache of this thread's run; an empty one outside a run."""
    return AnalysisCache() if _shared.cache is None else _shared.cache


@contextlib.contextmanager
def run_scope() -> Iterator[None]:
    """Scope of a run, in which the analyses of this thread share a cache."""
    before = _shared.cache
    _use(AnalysisCache())
    try:
        yield
    finally:
        # Cached elements refer to the cache: else only the cyclic collector would free them.
        invalidate_all()
        _use(before)


def _use(cache: AnalysisCache | None) -> None:
    _shared.cache = cache
    _shared.of_ops = None if cache is None else cache.of_ops


def invalidate_all() -> None:
    """Invalidates everything, after a change to unknown ops."""
    if _shared.cache is not None:
        _shared.cache.clear()
        _use(_shared.cache)


def invalidate(erased: Iterable[ir.Operation]) -> None:
    """Invalidates the entries of ops without users, before they are erased."""
    if _shared.cache is not None:
        _shared.cache.invalidate(erased)


@contextlib.contextmanager
def rewriting(ops: Iterable[ir.Operation] | None) -> Iterator[None]:
    """Scope of a rewrite: nothing new is cached in it, and entries about other ops survive it.

    Args:
      ops: the ops that the rewrite erases or whose operands it replaces; None if unknown.
    """
    cache = _shared.cache
    _shared.of_ops = None
    if cache is None or ops is None:
        try:
            yield
        finally:
            invalidate_all()
        return
    steps = cache.invalidate(ops)
    cache.steps, cache.settled = steps, cache.steps
    steps_of, cache.steps_of = cache.steps_of, {}
    try:
        yield
    finally:
        cache.answers = {}
        cache.steps, cache.settled, cache.steps_of = cache.settled, {}, steps_of
        _shared.of_ops = cache.of_ops


Question = TypeVar("Question")
Parsed = TypeVar("Parsed", ir.Attribute, ir.Type)
Answer = TypeVar("Answer")


def until_change(ask: Callable[[Question], Answer]) -> Callable[[Question], Answer]:
    """Caches a function of one value or op until the IR changes."""

    @functools.wraps(ask)
    def answer(question: Question) -> Answer:
        if _shared.cache is None:
            return ask(question)
        answers = _shared.cache.answers
        key = (ask, question)
        if key not in answers:
            answers[key] = ask(question)
        found: Answer = answers[key]
        return found

    return answer


def per_attribute(ask: Callable[[ir.Attribute], Answer]) -> Callable[[ir.Attribute], Answer]:
    """Caches a function of an attribute for the run."""

    @functools.wraps(ask)
    def answer(attribute: ir.Attribute) -> Answer:
        if _shared.cache is None:
            return ask(attribute)
        known, key = _shared.cache.of_attributes, (attribute, ask)
        if key not in known:
            known[key] = ask(attribute)
        found: Answer = known[key]
        return found

    return answer


def parse(kind: type[Parsed], text: str) -> Parsed:
    """The attribute or type with that text in the current context, parsed once per run."""
    cache = _shared.cache
    if cache is None:
        return kind.parse(text)
    key = (kind, text, ir.Context.current)
    if key not in cache.texts:
        cache.texts[key] = kind.parse(text)
    found: Parsed = cache.texts[key]
    return found


def upstream_table(ask: object) -> dict[ir.Operation, Any]:
    """A table, by op, of cache about ops and everything they are computed from, to read and extend.

    It survives a rewrite for the users of rewritten ops: new ops compute the same as the old ones.
    """
    return {} if _shared.of_ops is None else current().upstream.setdefault(ask, {})


def per_op(ask: Callable[[ir.Operation], Answer]) -> Callable[[ir.Operation], Answer]:
    """Caches a function of one op alone until that op changes.

    The op is in a block of a function or of a dispatch region, not in a scalar body.
    """

    @functools.wraps(ask)
    def answer(op: ir.Operation) -> Answer:
        of_ops = _shared.of_ops
        if of_ops is None:
            return ask(op)
        found: Answer
        try:
            found = of_ops[op][ask]
        except KeyError:
            found = ask(op)
            of_ops.setdefault(op, {})[ask] = found
        return found

    return answer
