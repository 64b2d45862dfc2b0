"""Names of ops of a report as users write them: locations, source lines, layers, kernels, ops."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator

from mlirfuse.core import Decision, Report, UsageError
from mlirfuse.explain.printing import layer_name, printable
from mlirfuse.final_kernels import FinalKernel, Place

_MAX_SUGGESTIONS = 3
"""Names suggested in place of an unknown one."""

_FILE_LINE = re.compile(r"(?P<file>.+?):(?P<line>\d+)(?::\d+)?$")
_ORDINAL = re.compile(r"#(\d+)")


def candidates_at(report: Report, query: str) -> frozenset[Place]:
    """The places of a report's decisions that a location, source line, layer or op name means.

    Raises:
      UsageError: no candidate has such an op.
    """
    found = _considered(report, query)
    if not found:
        raise _unknown(report, query)
    return found


def _considered(report: Report, query: str) -> frozenset[Place]:
    known = dict.fromkeys(place for d in report.decisions for place in d.places)
    names = {
        place
        for d in report.decisions
        for name, place in zip(d.op_names, d.places, strict=True)
        if name == query
    }
    locations = _locations(dict.fromkeys(location for location, _ in known), query)
    layers = {place for place in known if _is_in_layer(place, query)}
    return frozenset(layers or names or {place for place in known if place[0] in locations})


def kernels_at(report: Report, query: str) -> dict[int, set[int]]:
    """Index of a kernel -> indices of its ops that a query means.

    Args:
      report: of a compiled program.
      query: `#3` or the name of a kernel; the name of a layer, of which the layers inside are parts
        (`blocks.0.mlp`); the name of an op (`linalg.softmax`); a location, the end of its path
        (`model.py:12:5`), or that without the column (`model.py:12`).

    Raises:
      UsageError: no op is there; the message names the nearest.
    """
    for ways in (_named_kernels, _in_layer, _op_names, _at_location, _formerly):
        if found := ways(report, query):
            return found
    if _considered(report, query):
        raise UsageError(
            f"the ops at '{printable(query)}' are in no kernel: they were folded away or are copies"
            " (--kernels lists the kernels)"
        )
    raise _unknown(report, query)


def _named_kernels(report: Report, query: str) -> dict[int, set[int]]:
    ordinal = _ORDINAL.fullmatch(query)
    return {
        index: set(range(len(kernel.ops)))
        for index, kernel in enumerate(report.kernels)
        if kernel.name == query or (ordinal and int(ordinal[1]) == index)
    }


def _in_layer(report: Report, query: str) -> dict[int, set[int]]:
    return _held(report, lambda kernel, op: _is_in_layer(kernel.places[op], query))


def _op_names(report: Report, query: str) -> dict[int, set[int]]:
    return _held(report, lambda kernel, op: kernel.op_names[op] == query)


def _at_location(report: Report, query: str) -> dict[int, set[int]]:
    known = dict.fromkeys(place for kernel in report.kernels for place in kernel.ops)
    wanted = _locations(known, query)
    return _held(report, lambda kernel, op: kernel.ops[op] in wanted)


def _formerly(report: Report, query: str) -> dict[int, set[int]]:
    """The ops that were called so before they were decomposed or merged."""
    wanted = _considered(report, query)
    return _held(report, lambda kernel, op: kernel.places[op] in wanted)


def _held(report: Report, means: Callable[[FinalKernel, int], bool]) -> dict[int, set[int]]:
    found = {}
    for index, kernel in enumerate(report.kernels):
        if held := {op for op in range(len(kernel.ops)) if means(kernel, op)}:
            found[index] = held
    return found


def _is_in_layer(place: Place, query: str) -> bool:
    layer = query.replace(".", "/")
    return bool(layer) and f"{place[1]}/".startswith(f"{layer}/")


def _locations(known: Iterable[str], query: str) -> frozenset[str]:
    """The known locations that are the query, or end with it, the column left out or not."""
    if query in known:
        return frozenset({query})
    tail = re.compile(rf"(?:^|/){re.escape(query)}(?::\d+)?$")
    return frozenset(location for location in known if query and tail.search(location))


def _unknown(report: Report, query: str) -> UsageError:
    entries: list[Decision | FinalKernel] = [*report.decisions, *report.kernels]
    locations = dict.fromkeys(location for entry in entries for location in entry.ops)
    missing = f"no op at '{printable(query)}'"
    if not locations:
        return UsageError(f"{missing}: no pass considered any op of this module")
    near = ", ".join(f"'{printable(n)}'" for n in _nearest(query, locations, _names(entries)))
    return UsageError(
        f"{missing}: neither a location nor a layer, op or kernel is called that; nearest: {near}"
        " (--kernels and --candidates list them)"
    )


def _names(entries: Iterable[Decision | FinalKernel]) -> Iterator[str]:
    """The names of layers, ops and kernels."""
    for entry in entries:
        yield from (layer_name(layer) for layer in entry.layers if layer)
        yield from entry.op_names
        if isinstance(entry, FinalKernel):
            yield entry.name


def _nearest(query: str, locations: Iterable[str], names: Iterable[str]) -> list[str]:
    """The known names closest to `query`: by line within the same file, else by spelling."""
    wanted = _FILE_LINE.match(query)
    if wanted:
        same_file = []
        for location in locations:
            found = _FILE_LINE.match(location)
            if found and found["file"].rpartition("/")[2] == wanted["file"].rpartition("/")[2]:
                same_file.append((abs(int(found["line"]) - int(wanted["line"])), location))
        if same_file:
            return [location for _, location in sorted(same_file)[:_MAX_SUGGESTIONS]]
    known = dict.fromkeys((*names, *locations))
    return difflib.get_close_matches(query, known, n=_MAX_SUGGESTIONS, cutoff=0.0)
