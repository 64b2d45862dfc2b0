"""The kernels of the final program as the page shows them, with measured times if there are any."""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence
from typing import Any

from mlirfuse.core import Report
from mlirfuse.explain.kernels import op_kinds, op_runs, tensor
from mlirfuse.explain.traffic import against
from mlirfuse.final_kernels import FinalKernel

_MEASURED = (
    *("min_us", "median_us", "share", "bytes_per_second", "copy_share", "peak_share", "bound"),
)
"""Fields of a profile's kernel that the page shows."""


def kernel_rows(
    kernels: Sequence[FinalKernel], measured: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """A row for each kernel, in the order of the program.

    Args:
      kernels: the kernels of the final program.
      measured: the kernels of a profile, as `KernelProfile.to_dict` gives them.
    """
    by_name = collections.defaultdict(list)
    for entry in measured:
        by_name[entry["name"]].append(entry)
    counts = collections.Counter(kernel.name for kernel in kernels)
    return [
        {
            "index": index,
            "name": kernel.name,
            "function": kernel.model_function,
            "code": kernel.code,
            "pass": kernel.pass_name,
            "match": kernel.match,
            "kinds": op_kinds(kernel),
            "ops": op_runs(kernel),
            "locations": [*dict.fromkeys(kernel.ops)],
            "layers": [*dict.fromkeys(filter(None, kernel.layers))],
            "reads": [tensor(o) for o in kernel.operands if not o.is_result],
            "writes": [tensor(o) for o in kernel.operands if o.is_result],
            "bytes": kernel.bytes,
            "flops": kernel.flops,
            "calls": kernel.calls,
            "workgroups": None if kernel.workgroups is None else list(kernel.workgroups),
            "measured": _times(kernel, by_name[kernel.name], counts[kernel.name]),
        }
        for index, kernel in enumerate(kernels)
    ]


def stock_rows(report: Report, measured: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The kernels of stock IREE's program, and which of them have the source ops of ours.

    Args:
      report: the report of our program; its `stock_kernels` are empty where they are not known.
      measured: the kernels of a profile of stock IREE's program.
    """
    ours = {id(kernel): index for index, kernel in enumerate(report.kernels)}
    stock = {id(kernel): index for index, kernel in enumerate(report.stock_kernels)}
    return {
        "kernels": kernel_rows(report.stock_kernels, measured),
        "sets": [
            {
                "ours": [ours[id(kernel)] for kernel in found.kernels],
                "stock": [stock[id(kernel)] for kernel in found.stock],
                "bytes": found.bytes,
                "stock_bytes": found.stock_bytes,
            }
            for found in against(report.kernels, report.stock_kernels)
        ],
    }


def _times(
    kernel: FinalKernel, entries: Sequence[Mapping[str, Any]], same: int
) -> dict[str, Any] | None:
    """The measured fields of a kernel; `kernels` is how many share one entry of the profile."""
    origins = [*dict.fromkeys(kernel.ops)], [*dict.fromkeys(filter(None, kernel.layers))]
    own = [entry for entry in entries if (entry["ops"], entry["layers"]) == origins]
    if not own and len(entries) != 1:
        return None
    entry = (own or entries)[0]
    sharing = 1 if len(entries) == same else same
    return {name: entry[name] for name in _MEASURED} | {"kernels": sharing}
