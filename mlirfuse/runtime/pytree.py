"""The containers of a model's results, as JSON, so that a loaded program returns the same.

    {"leaf": 0}   {"tuple": [...]}   {"list": [...]}   {"dict": {"name": ...}}   {"value": null}

A mapping of any class comes back as a `dict`, a named tuple as a tuple.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from mlirfuse.support.calling import Leaf, encode


def describe(unflatten: Callable[[Sequence[Any]], Any] | None, count: int) -> dict[str, Any] | None:
    """Describes the result of `unflatten`; None for containers that JSON cannot describe.

    Args:
      unflatten: of an `ImportedModel`; None for results alone or in a tuple.
      count: number of the program's results.
    """
    leaves = [Leaf(i) for i in range(count)]
    if unflatten is None:
        return encode(leaves[0] if count == 1 else tuple(leaves))
    try:
        return encode(unflatten(leaves))
    except Exception:  # the model's own classes may refuse stand-ins in any way they like
        return None


def check(description: Any, count: int) -> None:
    """Checks that `restore` can read a description.

    Args:
      description: any JSON value.
      count: number of results.

    Raises:
      ValueError, TypeError, AttributeError: it is no description of so many results.
    """
    if description is not None:
        _check_part(description, count)


def _check_part(description: Any, count: int) -> None:
    ((kind, value),) = description.items()
    if kind == "leaf":
        if not isinstance(value, int) or not 0 <= value < count:
            raise ValueError(f"no result {value!r}")
    elif kind == "dict":
        for entry in value.values():
            _check_part(entry, count)
    elif kind in ("tuple", "list"):
        for entry in value:
            _check_part(entry, count)
    elif kind != "value":
        raise ValueError(f"unknown kind {kind!r}")


def restore(description: Mapping[str, Any] | None, results: Sequence[Any]) -> Any:
    """Puts results into the containers described; without a description, one alone or a tuple."""
    if description is None:
        return results[0] if len(results) == 1 else tuple(results)
    ((kind, value),) = description.items()
    if kind == "leaf":
        return results[value]
    if kind == "value":
        return value
    if kind == "dict":
        return {key: restore(entry, results) for key, entry in value.items()}
    parts = [restore(entry, results) for entry in value]
    return tuple(parts) if kind == "tuple" else parts


def leaves(results: Any) -> Iterator[Any]:
    """The leaves of nested mappings, lists and tuples, in order, without None."""
    if isinstance(results, Mapping):
        results = results.values()
    elif not isinstance(results, list | tuple):
        if results is not None:
            yield results
        return
    for entry in results:
        yield from leaves(entry)
