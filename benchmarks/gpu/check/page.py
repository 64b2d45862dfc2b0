"""The section of docs/reliability.md on kernels on a device, from results/gpu_check.json."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

RESULTS = "gpu_check.json"
"""File name of the newest run."""

DTYPES = ("f16", "bf16", "f32")

_PRODUCT = (
    "A convolution of one tap and one channel is a product: `elementwise_triton_kernel` has it."
)

_UNPROVEN = (
    "The keys' batch was not proven to be the queries', so that IREE's code was left. It is now,"
    " by `shape_reshape`: 12 of 12 such programs of seed 71 are right."
)

EXPLAINED: dict[str, str] = {
    "grouped_convolution_0": _PRODUCT,
    "channels_first_1": _PRODUCT,
    "cumulative_2": "Sums to 500 in f32 are rounded by 2e-5 where they cross zero, under `tanh`.",
    "dynamic_attention_0": _UNPROVEN,
    "dynamic_attention_3": _UNPROVEN,
}
"""Failed case -> the reason why it is no error of a kernel."""

NOT_RUN: dict[str, str] = {}
"""Form that was made after the recorded run -> its kernel. The next run on a device empties it."""

_RUNNING = ("iree-base-runtime", "torch", "cuda")
"""Packages of the device's machine that programs and references run with."""

REPEAT = "python -m benchmarks gpu_check"


def section(found: Mapping[str, Any]) -> list[str]:
    """The lines of the section."""
    cases = found["cases"]
    kernels = list(dict.fromkeys(case["kernel"] for case in cases))
    forms = len({case["form"] for case in cases})
    versions = {**found["compiled_with"], **{n: found["run_with"].get(n, "") for n in _RUNNING}}
    device = found["run_with"].get("device", "no device")
    with_versions = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    summary = (
        f"`{REPEAT}`, {found['date']}, seed {found['seed']}: {len(cases)} random programs of"
        f" {forms} forms, each with the kernel that it is for, compiled for `{found['target']}` and"
        f" called {_sum(cases, 'calls')} times on one {device}, in {found['seconds']} s"
        f" ({with_versions}). Sizes are 1, odd, primes, powers of two and their neighbours, and"
        f" those of models; programs of dynamic sizes are called with several; rows hold infinities"
        f" and NaN, masks hide whole rows. Each element of a result is compared with float64: an"
        f" error is relative to its magnitude plus the root mean square of all. A second call"
        f" starts with NaN in the memory of the results, and must give the same bits; so must a"
        f" third, replayed as a CUDA graph, {_sum(cases, 'written')} of which wrote between guards"
        f" that stayed intact. Arguments must not change. Integers are in the columns of the type"
        f" that they are scaled in."
    )
    rows = [_row(f"`{kernel}`", [c for c in cases if c["kernel"] == kernel]) for kernel in kernels]
    return [
        "## Kernels on a device\n",
        *textwrap.wrap(summary, 100, break_on_hyphens=False),
        "",
        f"| kernel | programs | {' | '.join(DTYPES)} | dynamic | calls | largest error | failed |",
        "| --- |" + " ---: |" * (len(DTYPES) + 5),
        *rows,
        _row("all", cases),
        "",
        *_failures(cases),
        *_not_run(),
        "The largest error is relative to the tolerance: 0.6 % in f16, 4 % in bf16, 2e-5 in f32.",
    ]


def _not_run() -> list[str]:
    if not NOT_RUN:
        return []
    forms = ", ".join(f"`{form}` (`{kernel}`)" for form, kernel in NOT_RUN.items())
    return [f"Not run on a device yet: {forms}.", ""]


def _row(name: str, cases: Sequence[Mapping[str, Any]]) -> str:
    types = [sum(case["dtype"] == dtype for case in cases) for dtype in DTYPES]
    dynamic = sum("dynamic" in case["form"] for case in cases)
    failed = sum(bool(case["said"]) for case in cases)
    errors = [case["error"] for case in cases if not case["said"]]
    cells = [len(cases), *types, dynamic, _sum(cases, "calls"), f"{max(errors, default=0):.2f}"]
    return f"| {name} | {' | '.join(map(str, cells))} | {failed} |"


def _failures(cases: Sequence[Mapping[str, Any]]) -> list[str]:
    failed = [case for case in cases if case["said"]]
    lines = [
        f"`{c['name']}`, {c['dtype']}, {c['work']}: {c['said']}. {EXPLAINED.get(c['name'], '')}"
        for c in failed
    ]
    folded = [
        textwrap.fill(line.strip(), 100, initial_indent="- ", subsequent_indent="  ")
        for line in lines
    ]
    return ["Failed:\n", *folded, ""] if lines else []


def _sum(cases: Sequence[Mapping[str, Any]], field: str) -> int:
    return sum(case.get(field, 0) for case in cases)
