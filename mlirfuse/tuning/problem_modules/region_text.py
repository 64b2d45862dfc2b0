"""Writes a module with one `flow.dispatch.region`.

region = RegionText()
x = region.argument((64, 128), "f16")
(y,) = region.generic("mk", [(x, "mk")], [((64, 128), "f16", "mk")], ["%z = math.exp %a0 : f16"])
text = region.module(y)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from mlirfuse.structured.ir import ops


@dataclasses.dataclass(frozen=True, slots=True)
class Tensor:
    """A value of the module.

    Attributes:
      name: its name, `%v1`.
      shape: its sizes.
      element: its element type.
    """

    name: str
    shape: tuple[int, ...]
    element: str

    @property
    def type(self) -> str:
        """Its type."""
        return f"tensor<{''.join(f'{size}x' for size in self.shape)}{self.element}>"


Result = tuple[tuple[int, ...], str, str] | tuple[Tensor, str]
"""A result of `RegionText.generic`: shape, element type and map, or an init and its map."""


class RegionText:
    """Collects the ops of a region and the arguments of its function."""

    def __init__(self) -> None:
        self._arguments: list[Tensor] = []
        self._constants: list[str] = []
        self._lines: list[str] = []
        self._names = 0

    def _name(self) -> str:
        self._names += 1
        return f"%v{self._names}"

    def argument(self, shape: Sequence[int], element: str) -> Tensor:
        """A new argument of the function."""
        made = Tensor(self._name(), tuple(shape), element)
        self._arguments.append(made)
        return made

    def constant(self, value: str, kind: str) -> str:
        """A scalar constant outside the region."""
        name = self._name()
        self._constants.append(f"{name} = arith.constant {value} : {kind}")
        return name

    def indices(self, count: int) -> Tensor:
        """The numbers from 0 on as a constant outside the region; i32."""
        made = Tensor(self._name(), (count,), "i32")
        numbers = ", ".join(map(str, range(count)))
        self._constants.append(f"{made.name} = arith.constant dense<[{numbers}]> : {made.type}")
        return made

    def empty(self, shape: Sequence[int], element: str) -> Tensor:
        """A new tensor without contents."""
        made = Tensor(self._name(), tuple(shape), element)
        self._lines.append(f"{made.name} = tensor.empty() : {made.type}")
        return made

    def filled(self, shape: Sequence[int], element: str, value: str) -> Tensor:
        """A new tensor of one number, such as `0.0`."""
        scalar, target = self.constant(value, element), self.empty(shape, element)
        made = dataclasses.replace(target, name=self._name())
        self._lines.append(
            f"{made.name} = linalg.fill ins({scalar} : {element})"
            f" outs({target.name} : {target.type}) -> {made.type}"
        )
        return made

    def define(
        self, text: str, shape: Sequence[int], element: str, others: Sequence[Tensor] = ()
    ) -> Tensor:
        """The first result of an op that is given as text, without its name and its result types.

        Args:
          text: the op.
          shape: shape of the result.
          element: element type of the result.
          others: tensors of the types of the op's other results.
        """
        made = Tensor(self._name(), tuple(shape), element)
        types = ", ".join(each.type for each in (made, *others))
        self._lines.append(f"{made.name}:{1 + len(others)} = {text} {types}")
        return dataclasses.replace(made, name=f"{made.name}#0")

    def generic(
        self,
        loops: str,
        inputs: Sequence[tuple[Tensor, str]],
        results: Sequence[Result],
        body: Sequence[str],
        yields: Sequence[str] = ("%z",),
        reduced: str = "",
    ) -> list[Tensor]:
        """The results of a `linalg.generic`.

        Args:
          loops: one letter for each loop.
          inputs: operands with their maps: loops, `mk`, or expressions, `h * 2 + i, c`.
          results: inits, or shapes and element types of results, with their maps.
          body: scalar ops; `%a0` and so on are the inputs, `%o0` and so on the accumulators.
          yields: the values that the body yields.
          reduced: the loops that are reduced.
        """
        inits = [each[0] if len(each) == 2 else self.empty(*each[:2]) for each in results]
        maps = [each for _, each in inputs] + [each[-1] for each in results]
        spelled = ", ".join(affine_map(loops, each) for each in maps)
        kinds = ", ".join('"reduction"' if loop in reduced else '"parallel"' for loop in loops)
        scalars = [f"%a{n}: {tensor.element}" for n, (tensor, _) in enumerate(inputs)]
        scalars += [f"%o{n}: {tensor.element}" for n, tensor in enumerate(inits)]
        read = _operands("ins", [tensor for tensor, _ in inputs])
        name, count = self._name(), len(inits)
        types = ", ".join(tensor.type for tensor in inits)
        elements = ", ".join(tensor.element for tensor in inits)
        lines = "\n".join(body)
        self._lines.append(
            f"{name}:{count} = linalg.generic {{indexing_maps = [{spelled}],"
            f" iterator_types = [{kinds}]}}{read}{_operands('outs', inits)} {{\n"
            f"^bb0({', '.join(scalars)}):\n{lines}\n"
            f"linalg.yield {', '.join(yields)} : {elements}\n}} -> ({types})"
        )
        return [dataclasses.replace(t, name=f"{name}#{n}") for n, t in enumerate(inits)]

    def module(self, *results: Tensor) -> str:
        """The module whose region returns these values."""
        arguments = ", ".join(f"{each.name}: {each.type}" for each in self._arguments)
        types = ", ".join(each.type for each in results)
        lines = "\n".join(self._lines)
        names = ", ".join(each.name for each in results)
        returned = ", ".join(f"%region#{n}" for n in range(len(results)))
        constants = "\n".join(self._constants)
        return (
            f"util.func public @main({arguments}) -> ({types}) {{\n{constants}\n"
            f"%region:{len(results)} = {ops.REGION} -> ({types}) {{\n{lines}\n"
            f"flow.return {names} : {types}\n}}\nutil.return {returned} : {types}\n}}\n"
        )


def affine_map(loops: str, results: str) -> str:
    """An affine map: `mnk` to `mk`, or to expressions with commas."""
    spelled = results if "," in results else ", ".join(results)
    return f"affine_map<({', '.join(loops)}) -> ({spelled})>"


def _operands(keyword: str, tensors: Sequence[Tensor]) -> str:
    if not tensors:
        return ""
    names = ", ".join(tensor.name for tensor in tensors)
    return f" {keyword}({names} : {', '.join(tensor.type for tensor in tensors)})"
