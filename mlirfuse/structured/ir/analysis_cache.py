"""What a run has learnt of the IR, kept until a rewrite makes it untrue.

Passes ask the same of the same ops over and over. An answer is one of three kinds:

  kept         about one op alone: its attributes, operands, body and the constants that it reads.
               It stays true until that op is rewritten or reads another value.
  always       about an attribute, which nothing changes.
  remembered   about an op and whatever is around it. Any change ends it.

The engine says what changes, with `changing`. Outside a run nothing is kept: values do not keep
their module alive, and another module's can lie where they were. The same holds inside one: an op
made later can lie where an erased one was, so what is known of an op has to go before it does.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from iree.compiler import ir

if TYPE_CHECKING:
    from mlirfuse.structured.expr.nodes import Expr, Index

StepKey = tuple[ir.Value, tuple["Index", ...]]
"""One element of a tensor: the value and one index per dimension."""


class Facts:
    """What is known.

    Attributes:
      answers: those that are remembered, by function and question.
      of_ops: those that are kept, by op and function.
      of_attributes: those that are true always, by attribute and function.
      along: those that are kept of an op and all that it is computed from, by function and op.
      steps: what an element is one op further up; while a rewrite runs, those found meanwhile.
      settled: while a rewrite runs, the steps from before it; empty else.
      texts: attributes and types by their text and context.
      steps_of: the keys of the steps through an op, or along a loop of it, each in a list that all
        its ops share and that is empty once the step is dropped: such a key cannot be hashed.
    """

    __slots__ = (
        "along",
        "answers",
        "of_attributes",
        "of_ops",
        "settled",
        "steps",
        "steps_of",
        "texts",
    )

    def __init__(self) -> None:
        self.texts: dict[tuple[object, str, object], Any] = {}
        self.of_attributes: dict[tuple[ir.Attribute, object], Any] = {}
        self.clear()

    def clear(self) -> None:
        """Drops everything but what is true always."""
        self.answers: dict[tuple[object, object], Any] = {}
        self.of_ops: dict[ir.Operation, dict[object, Any]] = {}
        self.along: dict[object, dict[ir.Operation, Any]] = {}
        self.steps: dict[StepKey, Expr | None] = {}
        self.settled: dict[StepKey, Expr | None] = {}
        self.steps_of: dict[ir.Operation, list[list[StepKey]]] = {}

    def drop(self, changed: Iterable[ir.Operation]) -> dict[StepKey, Expr | None]:
        """Drops what is known of ops that are about to change; the steps through them."""
        self.answers = {}
        steps = {}
        for op in changed:
            self.of_ops.pop(op, None)
            for known in self.along.values():
                known.pop(op, None)
            for entry in self.steps_of.pop(op, ()):
                for key in entry:
                    steps[key] = self.steps.pop(key)
                entry.clear()
        return steps

    def keep_step(self, key: StepKey, step: Expr | None, about: Iterable[ir.Operation]) -> None:
        """Keeps what an element is one op further up, until one of the ops changes."""
        self.steps[key] = step
        entry = [key]
        for op in about:
            self.steps_of.setdefault(op, []).append(entry)


class _Shared(threading.local):
    """The facts of this thread's run; None outside a run, `keeps` unless a rewrite runs."""

    def __init__(self) -> None:
        self.facts: Facts | None = None
        self.keeps: dict[ir.Operation, dict[object, Any]] | None = None


_shared = _Shared()


def current() -> Facts:
    """The facts of this thread's run; new ones outside a run."""
    return Facts() if _shared.facts is None else _shared.facts


@contextlib.contextmanager
def remembering() -> Iterator[None]:
    """A run: all analyses of this thread share what they look at."""
    before = _shared.facts
    _use(Facts())
    try:
        yield
    finally:
        # Its elements refer to it: what they hold would wait for a collection of cycles.
        forget()
        _use(before)


def _use(facts: Facts | None) -> None:
    _shared.facts = facts
    _shared.keeps = None if facts is None else facts.of_ops


def forget() -> None:
    """Drops everything, after a change of which nobody says what it was."""
    if _shared.facts is not None:
        _shared.facts.clear()
        _use(_shared.facts)


def drop(erased: Iterable[ir.Operation]) -> None:
    """Drops what is known of ops of which nobody reads a result, before they are erased."""
    if _shared.facts is not None:
        _shared.facts.drop(erased)


@contextlib.contextmanager
def changing(ops: Iterable[ir.Operation] | None) -> Iterator[None]:
    """A rewrite: while it runs nothing new is kept, and after it what is about other ops is.

    Args:
      ops: those that the rewrite erases or lets read other values; None when nobody knows.
    """
    facts = _shared.facts
    _shared.keeps = None
    if facts is None or ops is None:
        try:
            yield
        finally:
            forget()
        return
    steps = facts.drop(ops)
    facts.steps, facts.settled = steps, facts.steps
    steps_of, facts.steps_of = facts.steps_of, {}
    try:
        yield
    finally:
        facts.answers = {}
        facts.steps, facts.settled, facts.steps_of = facts.settled, {}, steps_of
        _shared.keeps = facts.of_ops


Question = TypeVar("Question")
Parsed = TypeVar("Parsed", ir.Attribute, ir.Type)
Answer = TypeVar("Answer")


def remembered(ask: Callable[[Question], Answer]) -> Callable[[Question], Answer]:
    """Has a function of one value or op answer once, until the IR changes."""

    @functools.wraps(ask)
    def answer(question: Question) -> Answer:
        if _shared.facts is None:
            return ask(question)
        answers = _shared.facts.answers
        key = (ask, question)
        if key not in answers:
            answers[key] = ask(question)
        found: Answer = answers[key]
        return found

    return answer


def always(ask: Callable[[ir.Attribute], Answer]) -> Callable[[ir.Attribute], Answer]:
    """Has a function of an attribute answer once in a run."""

    @functools.wraps(ask)
    def answer(attribute: ir.Attribute) -> Answer:
        if _shared.facts is None:
            return ask(attribute)
        known, key = _shared.facts.of_attributes, (attribute, ask)
        if key not in known:
            known[key] = ask(attribute)
        found: Answer = known[key]
        return found

    return answer


def parsed(kind: type[Parsed], text: str) -> Parsed:
    """The attribute or type of that text in the current context, parsed once in a run."""
    facts = _shared.facts
    if facts is None:
        return kind.parse(text)
    key = (kind, text, ir.Context.current)
    if key not in facts.texts:
        facts.texts[key] = kind.parse(text)
    found: Parsed = facts.texts[key]
    return found


def kept_along(ask: object) -> dict[ir.Operation, Any]:
    """What is known of ops and of all that they are computed from, to be read and added to.

    A rewrite leaves what it says of the ops behind it: what it makes computes the same as before.
    """
    return {} if _shared.keeps is None else current().along.setdefault(ask, {})


def kept(ask: Callable[[ir.Operation], Answer]) -> Callable[[ir.Operation], Answer]:
    """Has a function about one op alone answer once, until that op changes.

    The op stands in a block of a function or in a group, not in a scalar body.
    """

    @functools.wraps(ask)
    def answer(op: ir.Operation) -> Answer:
        of_ops = _shared.keeps
        if of_ops is None:
            return ask(op)
        known = of_ops.get(op)
        if known is None:
            known = of_ops[op] = {}
        found: Answer
        try:
            found = known[ask]
        except KeyError:
            found = known[ask] = ask(op)
        return found

    return answer
