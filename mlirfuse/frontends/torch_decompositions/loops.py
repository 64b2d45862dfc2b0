"""Loops in decompositions, which IREE's importer turns into `scf.while`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

Carried = tuple["torch.Tensor", ...]

Body = Callable[["torch.Tensor", Carried], Carried]


def repeat(count: int, body: Body, carried: Carried) -> Carried:
    """Calls `body(k, carried)` for k = 0, 1, ..., count - 1, and returns the last values.

    Args:
      count: number of iterations.
      body: returns values of the same shapes and types. It may use no tensor from outside: the
        importer knows only the carried ones.
      carried: initial values.
    """
    return _loop(lambda k, _: k < count, body, carried)


def in_rows(*parts: torch.Tensor) -> Carried:
    """Tensors as vectors of two elements or more: IREE computes loops over scalars on the host."""
    rows = [part.reshape(-1) for part in parts]
    return tuple(row.expand(2).clone() if row.shape[0] == 1 else row for row in rows)


def from_rows(row: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """A result of a loop over `in_rows`, in the shape of a given tensor."""
    return (row[:1] if like.numel() == 1 else row).reshape(like.shape)


def repeat_while(left: Body, body: Body, carried: Carried) -> Carried:
    """Calls `body(k, carried)` as long as an element of `left(k, carried)[0]` is positive.

    There may be up to two calls more, which must change nothing. IREE 3.13 does not compile a
    condition that a dispatch computes, so that the test is of the value from the iteration before.

    Args:
      left: returns one tensor of integers.
      body: as for `repeat`.
      carried: initial values.
    """
    import torch

    def step(k: torch.Tensor, values: Carried) -> Carried:
        _, later, *rest = values
        new = body(k, tuple(rest))
        (remaining,) = left(k, new)
        return later, remaining.to(torch.int64).reshape(-1).amax(0), *new

    start = torch.ones((), dtype=torch.int64, device=carried[0].device)
    return _loop(lambda _, values: values[0] > 0, step, (start, start, *carried))[2:]


def _loop(
    more: Callable[[torch.Tensor, Carried], torch.Tensor], body: Body, carried: Carried
) -> Carried:
    import torch
    from torch._higher_order_ops.while_loop import while_loop_op

    def condition(k: torch.Tensor, *values: torch.Tensor) -> torch.Tensor:
        return more(k, values)

    def step(k: torch.Tensor, *values: torch.Tensor) -> Carried:
        # Results of other strides are refused, and those that are arguments themselves.
        return k + 1, *(
            new.clone() if any(new is old for old in values) else new.contiguous()
            for new in body(k, values)
        )

    start = torch.zeros((), dtype=torch.int64, device=carried[0].device)
    if all(isinstance(x.numel(), int) and x.numel() == 1 for x in carried):
        return _padded_loop(more, body, carried)
    first = [x.clone(memory_format=torch.contiguous_format) for x in carried]
    found: Carried = while_loop_op(condition, step, (start, *first), ())
    return found[1:]


def _padded_loop(
    more: Callable[[torch.Tensor, Carried], torch.Tensor], body: Body, carried: Carried
) -> Carried:
    """A loop with one more value: IREE 3.13 compiles no loop that carries scalars only."""
    import torch

    def longer(k: torch.Tensor, values: Carried) -> Carried:
        *own, count = values
        return *body(k, tuple(own)), count + 1

    count = torch.zeros(2, dtype=torch.int64, device=carried[0].device)
    return _loop(lambda k, values: more(k, values[:-1]), longer, (*carried, count))[:-1]
