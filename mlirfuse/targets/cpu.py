"""CPUs through LLVM: `cpu`, `cpu:<LLVM's name of a CPU>`, `cpu:aarch64[:<name>]`."""

from __future__ import annotations

from mlirfuse.core import UsageError
from mlirfuse.errors import nearest
from mlirfuse.support import environment_numbers
from mlirfuse.targets import cpu_host, cpu_models, cpu_query, cpu_rates, cpu_tiles
from mlirfuse.targets.base import CpuDevice, Target
from mlirfuse.targets.cpu_models import AARCH64, X86_64, CpuModel

ARCHITECTURES = {"aarch64": AARCH64, "arm64": AARCH64, "x86_64": X86_64, "amd64": X86_64}
"""Accepted name of an architecture -> LLVM's."""

STACK_LIMIT = 32 * 1024
"""Bytes of stack that IREE 3.13 lets a dispatch use (`--iree-llvmcpu-stack-allocation-limit`)."""

MAX_BINDINGS = 32
"""Operands and results of a dispatch that the HAL module of IREE 3.13 takes from a program."""

NAMED_CORES = 8
"""Cores of a CPU that is named, of which nothing tells how many the machine has."""

_DATA_TILING = ("--iree-dispatch-creation-data-tiling",)


def create(arch: str) -> Target:
    """The CPU target.

    Args:
      arch: `host`; a name that LLVM knows for this machine's architecture or for another one:
        `generic`, `x86-64-v3`, `znver4`, `neoverse-n1`; or an architecture, and perhaps such a
        name: `aarch64`, `aarch64:neoverse-v1`.

    Raises:
      UsageError: LLVM knows no such CPU.
    """
    arch = arch or "host"
    architecture, name = _resolved(arch)
    found = device(name, architecture)
    foreign = architecture if architecture != cpu_host.architecture() else ""
    return Target(
        name="cpu",
        arch=arch,
        device="local-task",
        flags=cpu_query.flags(name, foreign),
        codegen_flags=_DATA_TILING,
        feature_flags={"data_tiling": _DATA_TILING},
        bandwidth=cpu_rates.bandwidth(found),
        matmul_rate=cpu_rates.matmul_rates(found),
        vector_rate=cpu_rates.vector_rate(found),
        special_rate=cpu_rates.special_rate(found),
        parallelism=cpu_rates.parallelism(found),
        launch_us=cpu_rates.LAUNCH_US,
        max_operands=MAX_BINDINGS,
        stack_limit=STACK_LIMIT,
        packed_matmul_tiles=cpu_tiles.packed_matmul_tiles(found),
        cpu_tiles=cpu_tiles.tiles(found),
        cpu=found,
        bf16_instructions=found.has("avx512bf16", "bf16"),
        source=cpu_rates.SOURCE,
    )


def instruction_set(device: CpuDevice) -> str:
    """The widest vector instructions of a CPU: `avx512`, `avx2`, `neon` or `baseline`."""
    return next(
        (
            name
            for feature, name in (("avx512f", "avx512"), ("avx2", "avx2"), ("neon", "neon"))
            if device.has(feature)
        ),
        "baseline",
    )


def device(name: str, architecture: str) -> CpuDevice:
    """Instruction sets and resources of a CPU; its caches and cores where it is this machine.

    Where the environment asks for a number of threads, it has as many cores.

    Args:
      name: LLVM's name of the CPU, or `host`.
      architecture: `x86_64`, `aarch64`, ...

    Raises:
      cpu_query.UnknownCpuError: LLVM knows no such CPU.
      UsageError: the environment's number of threads is none.
    """
    if name == "host":
        model, features = cpu_host.described()
        sizes, cores = cpu_host.cache_kib(), cpu_host.cores()
    else:
        _, features = cpu_query.ask(name, architecture)
        model = cpu_models.named(name) or cpu_models.usual(architecture, features)
        sizes, cores = {}, NAMED_CORES
    return _device(model, features, architecture, sizes, environment_numbers.threads() or cores)


def _device(
    model: CpuModel, features: tuple[str, ...], architecture: str, sizes: dict[int, int], cores: int
) -> CpuDevice:
    wide = next((size for name, size in (("avx512f", 64), ("avx", 32)) if name in features), 16)
    few = architecture == X86_64 and "avx512f" not in features
    return CpuDevice(
        vector_bytes=wide,
        num_registers=16 if few else 32,
        has_fma=bool({"fma", "neon"} & set(features)),
        fma_ports=model.fma_ports,
        load_ports=model.load_ports,
        l1_bytes=sizes.get(1, model.l1_kib) << 10,
        l2_bytes=sizes.get(2, model.l2_kib) << 10,
        l3_bytes=sizes.get(3, model.l3_kib) << 10,
        cores=cores,
        architecture=architecture,
        features=tuple(sorted(features)),
    )


def _resolved(arch: str) -> tuple[str, str]:
    """The architecture and LLVM's name of the CPU that a target names.

    Raises:
      UsageError: LLVM knows no such CPU.
    """
    own = cpu_host.architecture()
    if arch in ("host", f"{own}:host"):
        return own, "host"
    first, colon, rest = arch.partition(":")
    if first.lower() in ARCHITECTURES:
        architectures, name = [ARCHITECTURES[first.lower()]], rest.strip() if colon else "generic"
    else:
        architectures, name = [own, *({X86_64, AARCH64} - {own})], arch
    known: list[str] = []
    for architecture in architectures:
        try:
            cpu_query.ask(name, architecture)
        except cpu_query.UnknownCpuError as error:
            known += error.accepted
        else:
            return architecture, name
    raise UsageError(
        f"unknown target 'cpu:{arch}': LLVM knows no CPU '{name}' for"
        f" {' or '.join(architectures)}{nearest(name, known).partition(' (known')[0]}"
        " (known: host, generic, aarch64, x86_64, and clang's names such as x86-64-v3, znver4 or"
        " neoverse-n1)"
    )
