"""Parameters of a model as JSON: positional and keyword calls, of fresh and loaded programs alike.

    [{"name": "x", "tree": {"leaf": 0}}, {"name": "cache", "tree": {"tuple": [{"leaf": 1}, ...]}}]

A leaf is the index of an argument of the program; `{"unused": null}` is a leaf that the program
does not take, `{"value": 2.0}` a constant that the model was imported for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from mlirfuse.core import CallError, nearest

Tree = Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Leaf:
    """A stand-in for an argument of the program; `index` is None for one that it does not take."""

    index: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the model.

    Attributes:
      name: its name; empty for one that is only positional.
      tree: its containers.
    """

    name: str
    tree: Tree

    def to_dict(self) -> dict[str, Any]:
        """The parameter as JSON."""
        return {"name": self.name, "tree": self.tree}


def describe(
    args: Sequence[Any], kwargs: Mapping[str, Any], names: Sequence[str]
) -> tuple[Parameter, ...]:
    """The parameters of a model that was imported for a call.

    Args:
      args: positional arguments, with a `Leaf` for each tensor.
      kwargs: keyword arguments.
      names: names of the model's parameters, in their order, as far as they are known.

    Returns:
      The parameters in the order in which they are passed; none at all where a container is not a
      list, tuple or mapping of names.
    """
    order = {name: place for place, name in enumerate(names)}
    keywords = sorted(kwargs, key=lambda name: order.get(name, len(order)))
    try:
        return (
            *(
                Parameter(names[place] if place < len(names) else "", encode(value))
                for place, value in enumerate(args)
            ),
            *(Parameter(name, encode(kwargs[name])) for name in keywords),
        )
    except TypeError:
        return ()


def encode(value: Any) -> dict[str, Any]:
    """Describes containers of `Leaf` and constants.

    Raises:
      TypeError: another container, or another object.
    """
    if isinstance(value, Leaf):
        return {"unused": None} if value.index is None else {"leaf": value.index}
    if value is None or isinstance(value, bool | int | float | str):
        return {"value": value}
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {"dict": {key: encode(entry) for key, entry in value.items()}}
    if isinstance(value, tuple):
        return {"tuple": [encode(entry) for entry in value]}
    if isinstance(value, list):
        return {"list": [encode(entry) for entry in value]}
    raise TypeError(type(value).__name__)


def bind(
    parameters: Sequence[Parameter],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    count: int,
    source: str,
) -> list[Any]:
    """The flat arguments of a call.

    Args:
      parameters: of the model.
      args: positional arguments.
      kwargs: keyword arguments.
      count: number of arguments of the program.
      source: name of the model, for the error.

    Raises:
      CallError: the call does not fit.
    """
    if len(args) > len(parameters):
        raise CallError(
            f"{source}: called with {len(args)} positional arguments; it has {len(parameters)}"
        )
    values = dict(enumerate(args))
    places = {p.name: place for place, p in enumerate(parameters) if p.name}
    for name, value in kwargs.items():
        if name not in places:
            raise CallError(f"{source}: no argument is called '{name}'{nearest(name, places)}")
        if places[name] in values:
            raise CallError(f"{source}: argument '{name}' is given twice")
        values[places[name]] = value
    flat: list[Any] = [None] * count
    for place, parameter in enumerate(parameters):
        where = f"{source}: argument '{parameter.name or place}'"
        if place in values:
            _fill(parameter.tree, values[place], flat, where)
        elif parameter.tree != {"value": None}:
            raise CallError(f"{where} is missing")
    return flat


def _fill(tree: Tree, value: Any, flat: list[Any], where: str) -> None:
    """Writes the leaves of a value to their places.

    Raises:
      CallError: it has other containers, or another constant.
    """
    ((kind, inner),) = tree.items()
    if kind == "leaf":
        flat[inner] = value
    elif kind == "value":
        if type(value) is not type(inner) or value != inner:
            raise CallError(f"{where} is {value!r}; the model was imported for {inner!r}")
    elif kind == "dict":
        if not isinstance(value, Mapping) or value.keys() != inner.keys():
            raise CallError(f"{where} is no mapping of {', '.join(inner) or 'no names'}")
        for key, entry in inner.items():
            _fill(entry, value[key], flat, f"{where}['{key}']")
    elif kind != "unused":
        if not isinstance(value, list | tuple) or len(value) != len(inner):
            raise CallError(f"{where} is no {kind} of {len(inner)}")
        for index, entry in enumerate(inner):
            _fill(entry, value[index], flat, f"{where}[{index}]")


def read(entries: Any, count: int) -> tuple[Parameter, ...]:
    """Reads parameters from a manifest, which may hold anything.

    Raises:
      ValueError, TypeError, AttributeError: these are no parameters of so many arguments.
    """
    found = []
    leaves: list[int] = []
    for entry in entries:
        if not isinstance(entry["name"], str):
            raise TypeError("not a name")
        _check(entry["tree"], leaves)
        found.append(Parameter(entry["name"], entry["tree"]))
    if found and sorted(leaves) != list(range(count)):
        raise ValueError("not each argument once")
    return tuple(found)


def _check(tree: Any, leaves: list[int]) -> None:
    ((kind, inner),) = tree.items()
    if kind == "leaf":
        leaves.append(inner)
    elif kind == "dict":
        for entry in inner.values():
            _check(entry, leaves)
    elif kind in ("tuple", "list"):
        for entry in inner:
            _check(entry, leaves)
    elif kind not in ("value", "unused"):
        raise ValueError(f"unknown kind {kind!r}")
