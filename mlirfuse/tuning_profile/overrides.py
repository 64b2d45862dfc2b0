"""Settings that change the target: kernel configurations, numbers, arguments of `iree-compile`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from mlirfuse.core import UsageError, nearest
from mlirfuse.targets.base import MeasuredConfig, Target, Tile
from mlirfuse.tuning_profile.entry import (
    ATTENTION,
    CHANNEL_ORDER,
    IREE_OPTION,
    KERNEL,
    TARGET,
    Setting,
)

NOT_SWITCHES = frozenset({ATTENTION, CHANNEL_ORDER, IREE_OPTION, KERNEL})

TARGET_PARTS = ("cpu", "cpu_tiles")
"""Parts of a target whose numbers a profile may set: resources of a CPU that blocks and tiles are
computed from, and tile sizes. Every value of them gives a correct program, or one that IREE
refuses."""

PACKED_TILES = f"{TARGET}packed_matmul_tiles"
"""Register tiles of packed matmuls, the best first, as [[M, N], ...]."""

IREE_OPTIONS: Mapping[str, str] = {
    "--iree-opt-aggressively-propagate-transposes": "transposes move through more ops",
    "--iree-dispatch-creation-enable-aggressive-fusion": "IREE's own fusion of what is left",
    "--iree-dispatch-creation-enable-fuse-padding-into-linalg-consumer-ops": "padding is fused",
    "--iree-dispatch-creation-enable-split-reduction": "long reductions are split",
    "--iree-llvmcpu-disable-distribution": "one workgroup a dispatch",
    "--iree-llvmcpu-enable-ukernels": "IREE's microkernels",
    "--iree-llvmcpu-loop-unrolling": "LLVM unrolls loops",
    "--iree-llvmcpu-loop-vectorization": "LLVM vectorizes loops",
    "--iree-llvmcpu-slp-vectorization": "LLVM vectorizes straight code",
    "--iree-llvmcpu-target-vector-width-in-bytes": "width of vectors, in bytes",
    "--iree-llvmgpu-prefetch-num-stages": "stages of loads into shared memory",
    "--iree-opt-const-eval": "constants are computed at compile time",
    "--iree-opt-const-expr-hoisting": "constant expressions are hoisted",
    "--iree-stream-partitioning-favor": "max-concurrency or min-peak-memory",
}
"""Arguments of `iree-compile` that a profile may give: none reads or writes a file."""


def changed(target: Target, setting: Setting) -> Target:
    """The target with a setting.

    Raises:
      UsageError: this target has no such number, or the value is not of its type.
    """
    if setting.set == KERNEL:
        return dataclasses.replace(target, measured=(config_of(setting), *target.measured))
    if setting.set == IREE_OPTION:
        name = str(setting.value).partition("=")[0]
        if name not in IREE_OPTIONS:
            raise UsageError(f"a profile does not give {name}{nearest(name, IREE_OPTIONS)}")
        return dataclasses.replace(target, codegen_flags=(*target.codegen_flags, setting.value))
    if setting.set == PACKED_TILES:
        return dataclasses.replace(target, packed_matmul_tiles=_tiles(setting.value))
    _, part, field = (*setting.set.split(".", 2), "")[:3]
    old = getattr(target, part, None) if part in TARGET_PARTS else None
    number = getattr(old, field, None)
    if isinstance(number, bool) or not isinstance(number, int):
        raise UsageError(f"{target} has no number {part}.{field}")
    if isinstance(setting.value, bool) or not isinstance(setting.value, int) or setting.value < 1:
        raise UsageError(f"{part}.{field} takes a whole number above 0, not {setting.value!r}")
    fields: dict[str, Any] = {part: dataclasses.replace(old, **{field: setting.value})}  # type: ignore[type-var]
    return dataclasses.replace(target, **fields)


def config_of(setting: Setting) -> MeasuredConfig:
    """The kernel configuration of a setting."""
    value = setting.value
    config = value.get("config") or None
    return MeasuredConfig(
        value["family"], dict(value["problem"]), None if config is None else dict(config), 0.0
    )


def _tiles(value: Any) -> tuple[Tile, ...]:
    try:
        return tuple(Tile(int(m), int(n)) for m, n in value)
    except (TypeError, ValueError):
        raise UsageError(f"tiles are pairs of numbers, not {value!r}") from None
