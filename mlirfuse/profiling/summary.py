"""Makes a profile of recorded calls and of the facts about kernels."""

from __future__ import annotations

import collections
import itertools
import re
import statistics
from collections.abc import Iterator, Sequence

from mlirfuse.final_kernels import FinalKernel
from mlirfuse.profiling.capture import Call, Capture, Launch
from mlirfuse.profiling.kernel_profile import KernelProfile
from mlirfuse.profiling.rates import Rates
from mlirfuse.profiling.result import Profile
from mlirfuse.targets.base import GpuDevice

CONTRACTION_INTENSITY = 16
"""Operations for each element moved from which arithmetic is a contraction's, whatever the names:
elementwise ops and reductions have fewer."""

_CONTRACTION = re.compile(
    r"linalg\.(\w*matmul|\w*matvec|vecmat|dot|contract|mmt4d|\w*conv_)\w*|iree_linalg_ext\.attention"
    r"|(matmul|conv|attention|winograd)_\w*_kernel"
)
"""Names of ops and of kernel passes that compute contractions, few rows of them too."""

_DISPATCH_OF_CONTRACTION = re.compile(r"_(\w*matmul|matvec|vecmat)(_like)?_\d")
"""Names that IREE gives to a dispatch of a contraction; pooling is called a convolution."""

_ALLOCATED_REGISTERS = 256
"""Registers that a warp gets at a time, on GPUs of NVIDIA since sm_30 (CUDA's occupancy table)."""


def profile(
    source: str, function: str, capture: Capture, kernels: Sequence[FinalKernel], rates: Rates
) -> Profile:
    """The profile of recorded calls.

    Args:
      source: file name or model name.
      function: the function that was called.
      capture: the recorded calls.
      kernels: the kernels of the program, in the order of their dispatches; none if not known.
      rates: the rates of the device.
    """
    called = {k.name for k in kernels if _is_of(k, function)}
    ours = [k for k in kernels if _is_of(k, function) or k.name not in called]
    per_call = [_by_kernel(call, ours) for call in capture.calls]
    rows = {
        key: [sum(launch.ns for launch in found[key]) / 1e3 for found in per_call]
        for key in per_call[0]
    }
    counts = collections.Counter(name for name, _ in rows)
    medians = {key: statistics.median(times) for key, times in rows.items()}
    total = sum(medians.values()) or 1.0
    made = [
        _kernel(
            per_call[0][key],
            _facts(key, max(counts[key[0]], len(per_call[0][key])), ours),
            (min(rows[key]), medians[key], medians[key] / total),
            rates,
            key[1],
        )
        for key in rows
    ]
    fastest = min(capture.calls, key=lambda call: call.wall_ns)
    middle = sorted(capture.calls, key=lambda call: call.wall_ns)[(len(capture.calls) - 1) // 2]
    return Profile(
        source=source,
        function=function,
        kernels=tuple(sorted(made, key=lambda kernel: -kernel.median_us)),
        wall_us=middle.wall_ns / 1e3,
        min_wall_us=fastest.wall_ns / 1e3,
        min_busy_us=fastest.busy_ns / 1e3,
        busy_us=middle.busy_ns / 1e3,
        between_us=(middle.wall_ns - middle.busy_ns) / 1e3,
        rates=rates,
        capture=capture,
    )


def _is_of(kernel: FinalKernel, function: str) -> bool:
    return kernel.model_function == function


Key = tuple[str, int]
"""Name of a kernel, and its place among the kernels of that name where these are told apart."""


def _apart(name: str, launches: int, kernels: Sequence[FinalKernel]) -> list[FinalKernel]:
    """The kernels of a name whose launches are told apart by their order; else none.

    IREE makes one function of equal dispatches; the order tells where each runs once.
    """
    same = [kernel for kernel in kernels if kernel.name == name]
    alone = all(kernel.calls == 1 for kernel in same)
    return same if alone and 1 < len(same) == launches else []


def _by_kernel(call: Call, kernels: Sequence[FinalKernel]) -> dict[Key, list[Launch]]:
    """The launches of a call by kernel."""
    named: dict[str, list[Launch]] = {}
    for launch in call.launches:
        named.setdefault(launch.name, []).append(launch)
    found: dict[Key, list[Launch]] = {}
    for name, launches in named.items():
        if _apart(name, len(launches), kernels):
            found.update(((name, n), [launch]) for n, launch in enumerate(launches))
        else:
            found[name, 0] = launches
    return found


def _facts(key: Key, launches: int, kernels: Sequence[FinalKernel]) -> list[FinalKernel]:
    """The kernels of a key; several where their launches are not told apart."""
    name, place = key
    apart = _apart(name, launches, kernels)
    return [apart[place]] if apart else [kernel for kernel in kernels if kernel.name == name]


def _kernel(
    launches: Sequence[Launch],
    facts: Sequence[FinalKernel],
    times: tuple[float, float, float],
    rates: Rates,
    launch: int,
) -> KernelProfile:
    minimum, median, share = times
    first = launches[0]
    same_grid = all(launch.workgroups == first.workgroups for launch in launches)
    moved = _total([fact.bytes for fact in facts], len(launches), len(facts))
    flops = _total([fact.flops for fact in facts], len(launches), len(facts))
    seconds = median / 1e6
    peak = _peak(facts, rates)
    bandwidth = moved / seconds if moved is not None and seconds else None
    speed = flops / seconds if flops is not None and seconds else None
    return KernelProfile(
        name=first.name,
        calls=len(launches),
        min_us=minimum,
        median_us=median,
        share=share,
        bytes=moved,
        flops=flops,
        bytes_per_second=bandwidth,
        copy_share=bandwidth / rates.copy if bandwidth is not None and rates.copy else None,
        flops_per_second=speed,
        peak_share=speed / peak if speed is not None and peak else None,
        bound=_bound(moved, flops, len(launches), peak, rates),
        workgroups=first.workgroups if same_grid else None,
        workgroup_size=first.workgroup_size,
        registers=first.registers,
        shared_memory=first.shared_memory,
        local_memory=first.local_memory,
        occupancy=None if rates.gpu is None else occupancy(first, rates.gpu),
        ops=tuple(dict.fromkeys(op for fact in facts for op in fact.ops)),
        op_names=facts[0].op_names if facts else (),
        layers=tuple(dict.fromkeys(name for fact in facts for name in fact.layers if name)),
        origins=frozenset(pair for fact in facts for pair in _origins(fact)),
        operands=facts[0].operands if facts else (),
        code=facts[0].code if facts else None,
        pass_name=facts[0].pass_name if facts else None,
        executable=facts[0].executable if len({fact.executable for fact in facts}) == 1 else "",
        launch=launch,
    )


def _origins(fact: FinalKernel) -> Iterator[tuple[str, str]]:
    return itertools.zip_longest(fact.ops, fact.layers[: len(fact.ops)], fillvalue="")


def _total(counts: Sequence[int | None], launches: int, facts: int) -> int | None:
    """The count of all launches; each fact is that of one launch, and may stand for several."""
    known = [count for count in counts if count is not None]
    if not facts or len(known) < facts:
        return None
    if len(set(known)) == 1:
        return known[0] * launches
    return sum(known) if facts == launches else None


def _peak(facts: Sequence[FinalKernel], rates: Rates) -> float | None:
    """Operations per second of the arithmetic of a kernel, at the device's full rate."""
    if not facts or facts[0].flops is None:
        return None
    first = facts[0]
    types = [operand.dtype for operand in first.operands if not operand.is_result]
    known = [rates.matmul[dtype] for dtype in types if dtype in rates.matmul]
    return known[0] if known and _contracts(first) else rates.vector


def _contracts(kernel: FinalKernel) -> bool:
    """Whether the kernel computes a contraction, convolution or attention."""
    if any(map(_CONTRACTION.fullmatch, (*kernel.op_names, kernel.code))):
        return True
    elements = sum(_elements(operand.shape) for operand in kernel.operands)
    intense = kernel.flops is not None and kernel.flops > CONTRACTION_INTENSITY * elements
    return intense or _DISPATCH_OF_CONTRACTION.search(kernel.name) is not None


def _elements(shape: Sequence[int | None]) -> int:
    count = 1
    for size in shape:
        count *= size or 1
    return count


def _bound(
    moved: int | None, flops: int | None, launches: int, peak: float | None, rates: Rates
) -> str | None:
    if moved is None or flops is None or not rates.copy or rates.launch_us is None:
        return None
    seconds = {
        "memory": moved / rates.copy,
        "compute": flops / peak if peak else 0.0,
        "launch": launches * rates.launch_us / 1e6,
    }
    return max(seconds, key=lambda name: seconds[name])


def occupancy(launch: Launch, gpu: GpuDevice) -> float | None:
    """The part of a multiprocessor's threads that are resident, from 0 to 1.

    Args:
      launch: a launch with its resources.
      gpu: the device.
    """
    if launch.workgroup_size is None or not launch.registers:
        return None
    threads = _elements(launch.workgroup_size)
    warps = -(-threads // gpu.warp_size)
    per_warp = -(-launch.registers * gpu.warp_size // _ALLOCATED_REGISTERS) * _ALLOCATED_REGISTERS
    ctas = min(
        gpu.max_threads_per_sm // (warps * gpu.warp_size),
        gpu.registers_per_sm // (warps * per_warp),
        gpu.shared_memory_per_sm // max(1, launch.shared_memory or 0),
    )
    return ctas * warps * gpu.warp_size / gpu.max_threads_per_sm
