"""The arguments and results of an exported program, as those of a pure function.

    forward(self, x): self.cache.add_(x); return self.cache.sum(), None
  becomes
    main(cache, x) -> (cache + x, sum(cache + x))

An updated buffer becomes an argument and a result, and so does an updated argument. Results that
are constants, such as None, are left out of the program.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mlirfuse.support.signature import TensorSpec

if TYPE_CHECKING:
    import torch

Flatten = Callable[..., list[Any]]
Unflatten = Callable[[Sequence[Any]], Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Boundary:
    """How the results of the program are those of the model.

    Attributes:
      state: names and initial values of the updated buffers, in the order of the arguments.
      updated: for each updated value, in the order of the first results: the index of its buffer
        in `state`, or of the user's argument after them.
      constants: index among the model's results -> its value.
      names: names of the buffers by the names of their placeholders.
    """

    state: tuple[tuple[str, Any], ...]
    updated: tuple[int, ...]
    constants: dict[int, Any]
    names: dict[str, str]

    def wrap(self, flatten: Flatten, unflatten: Unflatten) -> tuple[Flatten, Unflatten]:
        """The calling convention of the program, around that of the model."""
        if not self.updated and not self.constants:
            return flatten, unflatten
        convention = _Convention(self, flatten, unflatten)
        return convention.flatten, convention.unflatten


def expose(program: torch.export.ExportedProgram) -> Boundary:
    """Changes the signature of a decomposed program to that of a pure function."""
    from torch.export.graph_signature import (
        ConstantArgument,
        InputKind,
        InputSpec,
        OutputKind,
        OutputSpec,
    )

    signature = program.graph_signature
    updates = (
        OutputKind.BUFFER_MUTATION,
        OutputKind.PARAMETER_MUTATION,
        OutputKind.USER_INPUT_MUTATION,
    )
    changed = [spec for spec in signature.output_specs if spec.kind in updates]
    held = {spec.target for spec in changed if spec.kind != OutputKind.USER_INPUT_MUTATION}
    state: list[tuple[str, Any]] = []
    names: dict[str, str] = {}
    users: list[str] = []
    for index, spec in enumerate(signature.input_specs):
        if spec.kind == InputKind.USER_INPUT:
            if not isinstance(spec.arg, ConstantArgument):
                users.append(spec.arg.name)
        elif spec.target in held:
            tables = (program.state_dict, program.constants)
            value = next(table[spec.target] for table in tables if spec.target in table)
            names[spec.arg.name] = spec.target
            state.append((spec.target, value.detach().clone()))
            signature.input_specs[index] = InputSpec(InputKind.USER_INPUT, spec.arg, None)
    places = {name: index for index, (name, _) in enumerate(state)}
    places |= {name: index + len(state) for index, name in enumerate(users)}
    results = [spec for spec in signature.output_specs if spec.kind == OutputKind.USER_OUTPUT]
    constants = {
        index: spec.arg.value
        for index, spec in enumerate(results)
        if isinstance(spec.arg, ConstantArgument)
    }
    signature.output_specs[:] = [
        *(OutputSpec(OutputKind.USER_OUTPUT, spec.arg, None) for spec in changed),
        *(spec for index, spec in enumerate(results) if index not in constants),
    ]
    updated = tuple(places[spec.target] for spec in changed)
    return Boundary(tuple(state), updated, constants, names)


def typed(
    specs: Sequence[TensorSpec], program: torch.export.ExportedProgram
) -> tuple[TensorSpec, ...]:
    """The specs with the unsigned types of the program: IREE's integers have no sign."""
    nodes = {node.name: node for node in program.graph.nodes}
    return tuple(
        dataclasses.replace(spec, dtype=_unsigned(nodes[spec.name], spec.dtype)) for spec in specs
    )


def _unsigned(node: torch.fx.Node, dtype: str) -> str:
    import torch

    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.dtype.is_signed or value.dtype == torch.bool:
        return dtype
    return f"u{dtype}" if dtype.startswith("i") else dtype


class _Convention:
    """Keeps the state between calls, and writes updated arguments back."""

    def __init__(self, boundary: Boundary, flatten: Flatten, unflatten: Unflatten) -> None:
        self._boundary = boundary
        self._flatten = flatten
        self._unflatten = unflatten
        self._values = [value for _, value in boundary.state]
        self._given = threading.local()

    def flatten(self, *args: Any, **kwargs: Any) -> list[Any]:
        self._given.flat = [*self._values, *self._flatten(*args, **kwargs)]
        return list(self._given.flat)

    def unflatten(self, results: Sequence[Any]) -> Any:
        count = len(self._boundary.updated)
        new, rest = results[:count], list(results[count:])
        for index, value in sorted(self._boundary.constants.items()):
            rest.insert(index, value)
        result = self._unflatten(rest)
        if not count:
            return result
        if not all(hasattr(value, "shape") for value in new):
            # Stand-ins, for the description of a saved program, which has no state.
            return result, dict(zip(self._updated_names(), new, strict=True))
        self._write(new)
        return result

    def _updated_names(self) -> list[str]:
        names = [name for name, _ in self._boundary.state]
        return [
            names[place] if place < len(names) else f"argument {place - len(names)}"
            for place in self._boundary.updated
        ]

    def _write(self, new: Sequence[Any]) -> None:
        import torch

        for place, value in zip(self._boundary.updated, new, strict=True):
            if place < len(self._values):
                self._values[place] = value
                continue
            given = self._given.flat[place]
            if isinstance(given, torch.Tensor):
                with torch.no_grad():
                    given.copy_(torch.as_tensor(value))
            else:
                given[...] = value
