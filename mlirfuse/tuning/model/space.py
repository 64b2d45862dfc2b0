"""The settings that are tried for a model, in the order of the cost model.

Each is one change of the default. Passes and matches that fired may be switched off, those that
would fire may be switched on; features, layouts, numbers of the target, kernel configurations and
arguments of `iree-compile` take other values. A setting that changes nothing gives the same
program, which is not measured.
"""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Iterable, Iterator
from pathlib import Path

from mlirfuse.core import Decision, Kind, MlirfuseError, Report
from mlirfuse.options import NUMERICS_LIMITS, FusionOptions
from mlirfuse.pipelines.resolve import resolve
from mlirfuse.plugins import registry
from mlirfuse.targets.base import Target
from mlirfuse.tuning_profile import entry as words
from mlirfuse.tuning_profile import overrides
from mlirfuse.tuning_profile.entry import Setting

MAX_MATCHES = 8
"""Matches of a pass up to which each is tried alone: those of more are the layers of a model."""

FACTORS = (0.5, 2)
"""Factors of a number of the target that are tried."""

TUNED_FEATURES = frozenset({"data_tiling", "kernels", "fma"})
"""Code generation features that are about speed."""

UNKNOWN_US = 0.0
"""Modelled change of a setting that the cost model says nothing about."""

CPU_OPTIONS = (
    "--iree-dispatch-creation-enable-aggressive-fusion",
    "--iree-dispatch-creation-enable-fuse-padding-into-linalg-consumer-ops",
    "--iree-dispatch-creation-enable-split-reduction",
    "--iree-llvmcpu-enable-ukernels=all",
    "--iree-llvmcpu-enable-ukernels=none",
    "--iree-llvmcpu-loop-unrolling",
    "--iree-llvmcpu-loop-vectorization",
    "--iree-llvmcpu-slp-vectorization",
    "--iree-llvmcpu-target-vector-width-in-bytes=16",
    "--iree-llvmcpu-target-vector-width-in-bytes=32",
    "--iree-llvmcpu-target-vector-width-in-bytes=64",
    "--iree-stream-partitioning-favor=min-peak-memory",
)
GPU_OPTIONS = (
    "--iree-dispatch-creation-enable-aggressive-fusion",
    "--iree-dispatch-creation-enable-split-reduction",
    "--iree-llvmgpu-prefetch-num-stages=0",
    "--iree-llvmgpu-prefetch-num-stages=2",
    "--iree-stream-partitioning-favor=min-peak-memory",
)


@dataclasses.dataclass(frozen=True, slots=True)
class Proposal:
    """A setting to try.

    Attributes:
      setting: the setting.
      where: the ops that it is about; empty for the whole model.
      modelled_us: modelled change of a call's time in microseconds; less is better.
    """

    setting: Setting
    where: str = ""
    modelled_us: float = UNKNOWN_US


def proposals(
    report: Report, target: Target, options: FusionOptions, enabled: Report | None
) -> list[Proposal]:
    """The settings to try, the most promising first.

    Args:
      report: of the program with the default settings.
      target: the machine.
      options: the switches of the user, which are no settings.
      enabled: report with every pass on that is off by default; None where that failed.
    """
    found: list[Proposal] = [
        *_off(report),
        *(_on(report, enabled) if enabled is not None else ()),
        *_switches(report, options),
        *_features(target, options),
        *_numbers(target),
        *_iree_options(target),
    ]
    if target.cpu is not None:
        found.append(Proposal(Setting(words.CHANNEL_ORDER, words.AS_WRITTEN)))
    unique: dict[str, Proposal] = {}
    for proposal in found:
        unique.setdefault(proposal.setting.key, proposal)
    return sorted(unique.values(), key=lambda p: p.modelled_us)


KERNELS_FOR_EACH = 2
"""Kernel configurations before each setting of which the cost model expects neither gain nor loss:
on a GPU most of the time is spent in the kernels."""


def with_kernels(proposals: list[Proposal], kernels: list[Proposal]) -> list[Proposal]:
    """The settings with kernel configurations, so that a limited search tries some of each kind.

    Settings that the cost model expects to gain come first. Then the configurations, about which it
    says nothing, take turns with the settings about which it says nothing; those that it expects to
    lose are last.

    Args:
      proposals: the settings, the most promising first.
      kernels: kernel configurations in their order.
    """
    gains = [p for p in proposals if p.modelled_us < 0]
    others = [p for p in proposals if p.modelled_us == 0]
    losses = [p for p in proposals if p.modelled_us > 0]
    mixed: list[Proposal] = []
    for index in range(0, max(len(kernels), KERNELS_FOR_EACH * len(others)), KERNELS_FOR_EACH):
        mixed += kernels[index : index + KERNELS_FOR_EACH]
        mixed += others[index // KERNELS_FOR_EACH :][:1]
    return [*gains, *mixed, *losses]


def _off(report: Report) -> Iterator[Proposal]:
    """Each pass that fired off, and each match of one that fired a few times."""
    taken: dict[str, list[Decision]] = collections.defaultdict(list)
    for decision in report.decisions:
        if decision.taken and decision.match is not None:
            taken[decision.pass_name].append(decision)
    for name, decisions in taken.items():
        gain = sum(d.gain_us or 0.0 for d in decisions)
        yield Proposal(Setting("disable_pass", name), _place(decisions), gain)
        if 1 < len(decisions) <= MAX_MATCHES:
            for decision in decisions:
                selector = f"{name}@match={decision.match}"
                yield Proposal(
                    Setting("disable_pass", selector), _place([decision]), decision.gain_us or 0.0
                )


def _on(report: Report, enabled: Report) -> Iterator[Proposal]:
    """Each pass that is off by default and would fire."""
    before = report.counts()
    for name, count in enabled.counts().items():
        if name not in before and count:
            decisions = [d for d in enabled.decisions if d.taken and d.pass_name == name]
            gain = sum(d.gain_us or 0.0 for d in decisions)
            yield Proposal(Setting("enable_pass", name), _place(decisions), -gain)


def _place(decisions: Iterable[Decision]) -> str:
    """Functions and places of some decisions, on a line."""
    places = dict.fromkeys(f"{d.function}: {d.ops[-1] if d.ops else '-'}" for d in decisions)
    shown = list(places)[:3]
    return "; ".join(shown) + (f"; {len(places) - 3} more" if len(places) > 3 else "")


def _switches(report: Report, options: FusionOptions) -> Iterator[Proposal]:
    passes = registry.passes()
    siblings = [name for name, entry in passes.items() if entry.kind is Kind.SIBLING]
    if options.horizontal is None and any(d.pass_name in siblings for d in report.decisions):
        yield Proposal(Setting("horizontal", False))
        yield Proposal(Setting("horizontal", True))
    if "single_op_groups" not in options.origins:
        yield Proposal(Setting("single_op_groups", True))
    for name in NUMERICS_LIMITS[: NUMERICS_LIMITS.index(options.numerics)]:
        yield Proposal(Setting("numerics", name))


def _features(target: Target, options: FusionOptions) -> Iterator[Proposal]:
    known = {"kernels", *target.feature_flags} & TUNED_FEATURES
    for name in sorted(known):
        if options.feature(name):
            yield Proposal(Setting("disable_feature", name))


def _numbers(target: Target) -> Iterator[Proposal]:
    """Numbers of a CPU that tiles are computed from, and tiles, halved and doubled."""
    for part in overrides.TARGET_PARTS:
        numbers = getattr(target, part)
        for field in dataclasses.fields(numbers) if numbers is not None else ():
            number = getattr(numbers, field.name)
            if isinstance(number, bool) or not isinstance(number, int) or number < 1:
                continue
            for factor in FACTORS:
                value = math.floor(number * factor)
                if value >= 1 and not (field.name == "vector_bytes" and factor > 1):
                    setting = Setting(f"{words.TARGET}{part}.{field.name}", value)
                    yield Proposal(setting)
    tiles = target.packed_matmul_tiles
    for tile in tiles[1:]:
        yield Proposal(Setting(overrides.PACKED_TILES, [[tile.m, tile.n]]))


def _iree_options(target: Target) -> Iterator[Proposal]:
    options = {"cpu": CPU_OPTIONS, "vulkan": GPU_OPTIONS[:2]}.get(target.name, GPU_OPTIONS)
    for text in options:
        yield Proposal(Setting(words.IREE_OPTION, text))


def with_everything_on(
    source: Path, output: Path, target: Target, options: FusionOptions
) -> Report | None:
    """The report of the passes with those on that are off by default; None where that fails.

    Args:
      source: the module past IREE's global optimization.
      output: file for the grouped module.
      target: the machine.
      options: the switches.
    """
    from mlirfuse.backend.grouping_process import group

    passes = registry.passes()
    names = [item.pass_name for item in resolve(options.pipeline)]
    off = [
        name
        for name in names
        if name in passes
        and target.name not in passes[name].targets
        and options.pass_switch(name) is None
    ]
    if not off:
        return None
    try:
        wide = options.over("tuner", {"enable_pass": off})
        return group(source, output, target=target, options=wide).report
    except MlirfuseError:
        return None
