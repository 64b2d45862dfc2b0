"""Groups of the search and their modelled times: alone, merged, and with a copy of a producer.

Ops and groups are known by indices: an op by its index in the block, a copy of an op by a further
index. An op that is no op of the block is `OUTSIDE`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from iree.compiler import ir

from mlirfuse import cost
from mlirfuse.core import NoMatch
from mlirfuse.targets.base import Target

OUTSIDE = -1
"""Index of a user that is no op of the block."""


@dataclasses.dataclass(frozen=True, slots=True)
class Output:
    """A value that a group writes.

    Attributes:
      bytes: its size.
      rank: number of its dimensions.
      producer: index of the op that computes it.
      users: indices of its users outside the group; empty only for a value without any user.
    """

    bytes: int
    rank: int
    producer: int
    users: frozenset[int]


@dataclasses.dataclass(frozen=True, slots=True)
class OpInfo:
    """One op of the block that may be in a group.

    Attributes:
      op: the op; of a copy the original.
      place: its index in the block.
      inputs: tensors that it reads -> bytes.
      outputs: its results.
      computes: its work without bytes.
      key: text by which ties are broken, whatever the order of ops in the file.
      kept_out: reason why it joins no group; None for an op that may.
      must_join: names of the user's groups that it has to end in.
    """

    op: ir.Operation
    place: int
    inputs: dict[ir.Value, int]
    outputs: dict[ir.Value, Output]
    computes: cost.Work
    key: str
    kept_out: NoMatch | None
    must_join: frozenset[str]


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """Ops that are one dispatch, and its modelled time.

    Attributes:
      members: indices of the ops.
      inputs: tensors from outside -> bytes.
      outputs: values with users outside.
      computes: its work without bytes.
      microseconds: its time.
      key: text by which ties are broken.
      must_join: names of the user's groups that ops of it have to end in.
    """

    members: frozenset[int]
    inputs: dict[ir.Value, int]
    outputs: dict[ir.Value, Output]
    computes: cost.Work
    microseconds: float
    key: str
    must_join: frozenset[str]


def alone(index: int, info: OpInfo, target: Target) -> Group:
    """The group of one op."""
    time = _microseconds(info.inputs, info.outputs, info.computes, target)
    members = frozenset({index})
    return Group(members, info.inputs, info.outputs, info.computes, time, info.key, info.must_join)


def merged(first: Group, last: Group, target: Target) -> Group:
    """The group of the ops of both; the last may read outputs of the first."""
    inputs = {
        **first.inputs,
        **{v: size for v, size in last.inputs.items() if v not in first.outputs},
    }
    outputs = dict(last.outputs)
    for value, output in first.outputs.items():
        rest = output.users - last.members
        if rest or not output.users:
            outputs[value] = dataclasses.replace(output, users=rest)
    computes = cost.combined([first.computes, last.computes], 0)
    return Group(
        members=first.members | last.members,
        inputs=inputs,
        outputs=outputs,
        computes=computes,
        microseconds=_microseconds(inputs, outputs, computes, target),
        key=min(first.key, last.key),
        must_join=first.must_join | last.must_join,
    )


def with_copy(producer: Group, user: Group, target: Target) -> Group:
    """The user with a copy of a producer of one op, whose results have no users outside."""
    own = {
        value: dataclasses.replace(output, users=output.users & user.members)
        for value, output in producer.outputs.items()
    }
    return merged(dataclasses.replace(producer, outputs=own), user, target)


def edges(first: Group, last: Group) -> Iterator[tuple[int, int, ir.Value]]:
    """Producer, user and value of each edge from the first group to the last."""
    for value, output in first.outputs.items():
        for user in output.users & last.members:
            yield output.producer, user, value


def _microseconds(
    inputs: dict[ir.Value, int],
    outputs: dict[ir.Value, Output],
    computes: cost.Work,
    target: Target,
) -> float:
    traffic = sum(inputs.values()) + sum(output.bytes for output in outputs.values())
    return dataclasses.replace(computes, bytes=traffic).microseconds(target)
