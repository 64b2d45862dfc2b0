"""Answers whether a plan is one kernel, and searches for the nearest plan that is."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator
from typing import Any

from mlirfuse import targets
from mlirfuse.fusion_plan import ops, rules
from mlirfuse.fusion_plan.codes import Check, Code, Refusal
from mlirfuse.fusion_plan.description import Description, described
from mlirfuse.fusion_plan.tensors import DTYPES, LAYOUTS, TensorSpec
from mlirfuse.targets.base import Target

MAX_EDITS = 2
"""Changes that the nearest plan may be away; two take some thousand plans, which are looked up in
milliseconds each."""

RANKS = (2, 4)
"""Ranks of another input: rows, and images or the heads of attention."""

_State = tuple[Description, Target]


def check(plan: Description, target: Target) -> Check:
    """The answer for a plan, without a device and without a compile."""
    try:
        rules.find(plan, target)
    except Refusal as refusal:
        near, edits = nearest(plan, target)
        return Check(refusal.code, refusal.detail, refusal.op, near, edits)
    return Check(Code.ONE_KERNEL)


def nearest(plan: Description, target: Target) -> tuple[str, tuple[str, ...]]:
    """The plan with the fewest and smallest changes that is one kernel, and these changes.

    Where `MAX_EDITS` lead to none, it is the longest part of the plan that is one kernel.
    """
    seen = {(plan, str(target))}
    level: list[tuple[_State, tuple[str, ...]]] = [((plan, target), ())]
    for _ in range(MAX_EDITS):
        following = []
        for state, edits in level:
            for other, edit in _edited(*state):
                key = (other[0], str(other[1]))
                if key in seen:
                    continue
                seen.add(key)
                made = (*edits, edit)
                if fits(*other):
                    return _text(other, target), made
                following.append((other, made))
        level = following
    return _part(plan, target)


def _part(plan: Description, target: Target) -> tuple[str, tuple[str, ...]]:
    """The longest part of a plan that is one kernel, with up to two changes of its input."""
    inputs: list[tuple[Description, tuple[str, ...]]] = [(plan, ())]
    inputs += [(other, (edit,)) for other, edit in _inputs(plan)]
    inputs += [(both, (*edits, e)) for other, edits in inputs[1:] for both, e in _inputs(other)]
    for count in range(len(plan.ops) - 1, 0, -1):
        for start in range(len(plan.ops) - count + 1):
            end = start + count
            left_out = [*plan.ops[:start], *plan.ops[end:]]
            for other, edits in inputs:
                part = other.with_ops(*plan.ops[start:end])
                if fits(part, target):
                    removed = [f"without {described(op)}" for op in left_out]
                    return str(part), (*edits, *removed)
    return "", ()


def fits(plan: Description, target: Target) -> bool:
    """Whether the rules of the target take the plan."""
    try:
        rules.find(plan, target)
    except Refusal:
        return False
    return True


def _text(state: _State, asked: Target) -> str:
    plan, target = state
    return str(plan) if target == asked else f"{plan} on {target}"


def _edited(plan: Description, target: Target) -> Iterator[tuple[_State, str]]:
    """The plans one change away, the smallest changes first."""
    for other, edit in itertools.chain(
        _parameters(plan), _inputs(plan), _orders(plan), _removed(plan), _added(plan)
    ):
        yield (other, target), edit
    for name in rules.TARGETS:
        machine = targets.parse(name)
        if machine.name != target.name:
            yield (plan, machine), f"target {name}"


def _parameters(plan: Description) -> Iterator[tuple[Description, str]]:
    """One parameter of one op with its default, or another mode."""
    for index, op in enumerate(plan.ops):
        for field in dataclasses.fields(op):
            choices: tuple[Any, ...] = (field.default,)
            if field.name == "mode":
                choices = _MODES.get(op.kind, ())
            if op.kind == ops.ConvForward.kind and field.name == "padding":
                choices = (0,)
            if field.name == "kernel":  # one that fits into every image
                choices = (field.default, 1)
            if field.default is dataclasses.MISSING and field.name != "mode":
                choices = (_count(getattr(op, field.name)),)
            for value in choices:
                if value is dataclasses.MISSING or value == getattr(op, field.name):
                    continue
                changed = dataclasses.replace(op, **{field.name: value})
                made = plan.with_ops(*plan.ops[:index], changed, *plan.ops[index + 1 :])
                yield made, f"{op.kind} with {field.name}={value}"


def _count(value: Any) -> int:
    """The nearest number of filters or columns to a value that is none."""
    try:
        return max(1, int(value))
    except (TypeError, ValueError):
        return 1


_MODES = {
    ops.ConvForward.kind: ops.CONVOLUTIONS,
    ops.BatchNormInference.kind: ops.MODES,
    ops.BatchNormForwardTraining.kind: ops.MODES,
    ops.BatchNormBackward.kind: ops.MODES,
    ops.Norm.kind: ops.NORMS,
    ops.Pool.kind: ops.POOLS,
    ops.Reduce.kind: ops.REDUCTIONS,
    ops.ActivationForward.kind: ("relu",),
    ops.ActivationBackward.kind: ("relu",),
}


def _inputs(plan: Description) -> Iterator[tuple[Description, str]]:
    """Another element type, layout or rank of the input."""
    for dtype in DTYPES:
        if dtype != plan.input.dtype:
            changed = dataclasses.replace(plan.input, dtype=dtype)
            yield dataclasses.replace(plan, input=changed), f"input of {dtype}"
    for layout in LAYOUTS:
        if len(layout) == plan.input.rank and layout != plan.input.layout:
            changed = dataclasses.replace(plan.input, layout=layout)
            if plan.input.layout:
                sizes = dict(zip(plan.input.layout, plan.input.shape, strict=True))
                shape = tuple(sizes[letter] for letter in layout)
                changed = dataclasses.replace(changed, shape=shape)
            yield dataclasses.replace(plan, input=changed), f"layout {layout}"
    for rank in RANKS:
        shape = _of_rank(plan.input.shape, rank)
        if len(shape) == rank != plan.input.rank:
            changed = TensorSpec(shape, plan.input.dtype)
            yield dataclasses.replace(plan, input=changed), f"input of {changed}"


def _of_rank(shape: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """A shape of as many elements: leading dimensions are joined, or dimensions of 1 added."""
    if len(shape) <= rank:
        return (*(1,) * (rank - len(shape)), *shape)
    joined = len(shape) - rank + 1
    return (math.prod(shape[:joined]), *shape[joined:])


def _orders(plan: Description) -> Iterator[tuple[Description, str]]:
    """Two neighbors exchanged."""
    for i in range(len(plan.ops) - 1):
        swapped = [*plan.ops[:i], plan.ops[i + 1], plan.ops[i], *plan.ops[i + 2 :]]
        yield plan.with_ops(*swapped), f"{plan.ops[i + 1].kind} before {plan.ops[i].kind}"


def _removed(plan: Description) -> Iterator[tuple[Description, str]]:
    """One op left out, the last one first."""
    for i in reversed(range(len(plan.ops))):
        rest = [*plan.ops[:i], *plan.ops[i + 1 :]]
        if rest:
            yield plan.with_ops(*rest), f"without {described(plan.ops[i])}"


def _added(plan: Description) -> Iterator[tuple[Description, str]]:
    """An op for a plan that has none."""
    if not plan.ops:
        yield plan.with_ops(ops.ActivationForward("relu")), "activation added"
