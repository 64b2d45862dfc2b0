"""Kernels that run beside the commands after them: who waits for whom."""

import itertools

import pytest
from iree.compiler import ir

from mlirfuse.backend import command_accesses
from mlirfuse.detached_kernels import MAX_DETACHED, DetachedKernels


def before(found, index):
    """All commands that a command waits for, directly or not."""
    work, seen = [index], set()
    while work:
        for one in found[work.pop()]:
            if one not in seen:
                seen.add(one)
                work.append(one)
    return seen


def test_two_directions_run_beside_each_other():
    both = DetachedKernels(8, {3: (7,), 6: (7,)})
    assert both.predecessors() == [(), (0,), (1,), (2,), (2,), (4,), (5,), (3, 5, 6)]
    assert DetachedKernels.from_dict(both.to_dict()) == both


def test_without_recurrences_all_commands_are_a_chain():
    assert DetachedKernels(3, {}).predecessors() == [(), (0,), (1,)]


def test_users_wait_for_what_their_recurrence_waited_for():
    """The second recurrence reads the first one; who reads the first one waits for both."""
    found = DetachedKernels(5, {0: (1, 3), 1: (4,)}).predecessors()
    assert found == [(), (0,), (), (1, 2), (3,)]


def test_at_most_two_recurrences_run_at_a_time():
    found = DetachedKernels(5, dict.fromkeys(range(4), (4,))).predecessors()
    for several in itertools.combinations(range(4), MAX_DETACHED + 1):
        assert any(a in before(found, b) for a, b in itertools.permutations(several, 2))
    assert before(found, 4) == {0, 1, 2, 3}


@pytest.mark.parametrize("seed", range(40))
def test_each_user_waits(seed):
    import random

    draw = random.Random(seed)
    users = {
        index: tuple(n for n in range(index + 1, 12) if draw.random() < 0.2)
        for index in range(12)
        if draw.random() < 0.5
    }
    found = DetachedKernels(12, users).predecessors()
    others = [index for index in range(12) if index not in users]
    for index, later in users.items():
        assert all(index in before(found, one) for one in later)
    for one, other in itertools.pairwise(others):
        assert one in before(found, other)
    for index in users:
        assert before(found, index) >= {one for one in others if one < index}


def execution(*commands):
    """A function with an execution of some commands, on one resource of 512 bytes."""
    text = "\n".join(commands)
    constants = "\n".join(f"%c{n} = arith.constant {n} : index" for n in (0, 64, 128, 256, 512))
    return f"""
    util.func public @main(%x: !stream.resource<transient>, %any: index) {{
      {constants}
      %i = arith.constant 0 : i8
      %t = stream.cmd.execute with(%x as %r: !stream.resource<transient>{{%c512}}) {{
        {text}
      }} => !stream.timepoint
      util.return
    }}"""


def dispatch(name, *accesses):
    bound = ", ".join(
        f"{kind} %r[{first} for {size}] : !stream.resource<transient>{{%c512}}"
        for kind, first, size in accesses
    )
    return f"stream.cmd.dispatch @e::@f::@{name} {{ {bound} }}"


def detached(*commands):
    with ir.Context() as context:
        context.allow_unregistered_dialects = True
        module = ir.Module.parse(execution(*commands))
        return command_accesses.detached(module, {"loop"})


FILL = "stream.cmd.fill %i, %r[{} for {}] : i8 -> !stream.resource<transient>{{%c512}}"
COPY = (
    "stream.cmd.copy %r[{}], %r[{}], {} : !stream.resource<transient>{{%c512}}"
    " -> !stream.resource<transient>{{%c512}}"
)


def test_who_shares_memory_with_a_recurrence_waits_for_it():
    found = detached(
        dispatch("other", ("wo", "%c0", "%c64")),
        dispatch("loop", ("ro", "%c0", "%c64"), ("wo", "%c128", "%c128")),
        dispatch("other", ("ro", "%c0", "%c64"), ("wo", "%c256", "%c64")),
        f"stream.cmd.concurrent {{ {FILL.format('%c64', '%c64')} {FILL.format('%c0', '%c64')} }}",
        COPY.format("%c128", "%c256", "%c64"),
        dispatch("other", ("ro", "%any", "%c64")),
        FILL.format("%c256", "%c256"),
    )
    assert found == DetachedKernels(8, {1: (4, 5, 6)})


def test_a_call_without_recurrence_has_none():
    assert detached(dispatch("other", ("wo", "%c0", "%c64"))) is None


def test_a_recurrence_whose_ctas_meet_in_memory_is_not_detached():
    assert detached(dispatch("loop", ("rw", "%c0", "%c64"), ("wo", "%c64", "%c64"))) is None
