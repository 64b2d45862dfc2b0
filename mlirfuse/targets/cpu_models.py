"""Ports and caches of CPUs, which LLVM does not tell, by LLVM's names and by machines' identities.

Instruction sets are asked of the compiler (`cpu_query`) or of Linux (`cpu_host`), and stand here
for no CPU. Sources: A. Fog, The microarchitecture of Intel, AMD and VIA CPUs, 2024; Arm's software
optimization guides; the vendors' data sheets for caches. Of several sizes of a cache the row has
the smallest of desktops and servers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping

X86_64 = "x86_64"
AARCH64 = "aarch64"

LINUX_NAMES: Mapping[str, str] = {
    "amx-bf16": "amx_bf16",
    "amx-int8": "amx_int8",
    "avx": "avx",
    "avx2": "avx2",
    "avx512bf16": "avx512_bf16",
    "avx512bw": "avx512bw",
    "avx512f": "avx512f",
    "avx512fp16": "avx512_fp16",
    "avx512vl": "avx512vl",
    "avx512vnni": "avx512_vnni",
    "avxvnni": "avx_vnni",
    "bf16": "bf16",
    "dotprod": "asimddp",
    "f16c": "f16c",
    "fma": "fma",
    "fullfp16": "asimdhp",
    "i8mm": "i8mm",
    "neon": "asimd",
    "sme": "sme",
    "sse4.1": "sse4_1",
    "sve": "sve",
    "sve2": "sve2",
}
"""LLVM's name of an instruction set that kernels may ask for -> Linux's name of it."""


MATRIX_FEATURE = "amx-int8"
"""The instruction set by which Intel's servers since Sapphire Rapids are recognized."""


@dataclasses.dataclass(frozen=True, slots=True)
class CpuModel:
    """Ports and caches of CPUs of one microarchitecture.

    Attributes:
      names: LLVM's names, separated by spaces.
      fma_ports: vectors of the widest registers that are multiplied and added in one cycle.
      load_ports: such vectors that are loaded in one cycle.
      l1_kib: KiB of a core's first data cache.
      l2_kib: KiB of the second cache, divided by the cores that share it.
      l3_kib: KiB of the last cache that cores share; 0 without one.
      vendor: vendor and family, or ARM's implementer, in `/proc/cpuinfo`; empty where the machine
        is not recognized by it, since its ports are usual for its instruction set.
      ids: models of the family, or ARM's parts.
    """

    names: str
    fma_ports: int = 2
    load_ports: int = 2
    l1_kib: int = 32
    l2_kib: int = 512
    l3_kib: int = 16 << 10
    vendor: str = ""
    ids: Collection[int] = ()


_INTEL = "GenuineIntel 6"
_ARM = "0x41"

_A76 = "cortex-a76 cortex-a76ae cortex-a77 cortex-a78 cortex-a78ae cortex-a78c"
_A76_IDS = (0xD0B, 0xD0E, 0xD0D, 0xD41, 0xD42, 0xD4B)
_A710 = "cortex-a710 cortex-a715 cortex-a720 cortex-a725"
_V2 = "neoverse-v2 neoverse-v3 neoverse-v3ae grace"

MODELS: tuple[CpuModel, ...] = (
    CpuModel("x86-64-v3 znver2"),
    CpuModel("x86-64-v4 skylake-avx512 skx cascadelake cooperlake", l2_kib=1024),
    # Zen 1 has half of a 256-bit vector in each pipe, Zen 4 half of a 512-bit one.
    CpuModel("znver1", 1, 1, 32, 512, 8 << 10, "AuthenticAMD 23", range(0x30)),
    CpuModel("znver3", 2, 2, 32, 512, 32 << 10),
    CpuModel(
        *("znver4", 1, 1, 32, 1024, 32 << 10, "AuthenticAMD 25"),
        ids=(*range(0x10, 0x20), *range(0x60, 0xB0)),
    ),
    CpuModel("znver5", 2, 2, 48, 1024, 32 << 10),
    # Intel's clients have one unit for vectors of 512 bits, and three loads of 256.
    CpuModel("haswell core-avx2 broadwell skylake", 2, 2, 32, 256, 8 << 10),
    CpuModel("cannonlake", 1, 2, 32, 256, 4 << 10, _INTEL, (102,)),
    CpuModel("icelake-client rocketlake", 1, 2, 48, 512, 8 << 10, _INTEL, (125, 126, 167)),
    CpuModel("tigerlake", 1, 2, 48, 1280, 12 << 10, _INTEL, (140, 141)),
    CpuModel(
        "alderlake raptorlake meteorlake",
        *(2, 3, 48, 1280, 24 << 10, _INTEL, (151, 154, 170, 172, 183, 186, 191)),
    ),
    CpuModel(
        "arrowlake arrowlake-s lunarlake pantherlake",
        *(2, 3, 48, 2048, 24 << 10, _INTEL, (181, 189, 197, 198, 204)),
    ),
    CpuModel("gracemont sierraforest grandridge", 1, 1, 32, 512, 0, _INTEL, (175, 182, 190)),
    CpuModel("icelake-server", 2, 2, 48, 1280, 36 << 10),
    CpuModel(
        "sapphirerapids emeraldrapids graniterapids graniterapids-d", 2, 2, 48, 2048, 60 << 10
    ),
    # Arm: vectors of 128 bits, also where SVE has longer ones.
    CpuModel("cortex-a34 cortex-a35 cortex-a53", 1, 1, 32, 256, 0, _ARM, (0xD02, 0xD03, 0xD04)),
    CpuModel("cortex-a55 cortex-a510 cortex-a520", 1, 1, 32, 128, 0, _ARM, (0xD05, 0xD46, 0xD80)),
    CpuModel("cortex-a57 cortex-a72 cortex-a73", 2, 1, 32, 512, 0, _ARM, (0xD07, 0xD08, 0xD09)),
    CpuModel("cortex-a75", 2, 2, 64, 256, 2 << 10, _ARM, (0xD0A,)),
    CpuModel(_A76, 2, 2, 64, 256, 2 << 10, _ARM, _A76_IDS),
    CpuModel(_A710, 2, 3, 64, 256, 4 << 10, _ARM, (0xD47, 0xD4D, 0xD81, 0xD87)),
    CpuModel("cortex-x1 cortex-x1c", 4, 3, 64, 1024, 4 << 10, _ARM, (0xD44, 0xD4C)),
    CpuModel("cortex-x2 cortex-x3 cortex-x4", 4, 3, 64, 1024, 8 << 10, _ARM, (0xD48, 0xD4E, 0xD82)),
    CpuModel("cortex-x925 gb10", 6, 4, 64, 2048, 12 << 10, _ARM, (0xD85,)),
    CpuModel("neoverse-n1", 2, 2, 64, 1024, 32 << 10, _ARM, (0xD0C,)),
    CpuModel("neoverse-n2 neoverse-n3 cobalt-100", 2, 3, 64, 1024, 32 << 10, _ARM, (0xD49, 0xD8E)),
    CpuModel("neoverse-v1 neoverse-512tvb", 4, 3, 64, 1024, 32 << 10, _ARM, (0xD40,)),
    CpuModel(_V2, 4, 3, 64, 1024, 32 << 10, _ARM, (0xD4F, 0xD83, 0xD84)),
    CpuModel("apple-a13 apple-a14 apple-m1", 4, 3, 128, 3072, 8 << 10),
    CpuModel("apple-a15 apple-a16 apple-a17 apple-a18", 4, 3, 128, 4096, 8 << 10),
    CpuModel("apple-m2 apple-m3 apple-m4 apple-m5", 4, 3, 128, 4096, 8 << 10),
    CpuModel("ampere1 ampere1a ampere1b", 2, 2, 64, 2048, 64 << 10, "0xc0", (0xAC3, 0xAC4, 0xAC5)),
    CpuModel("oryon-1", 4, 4, 96, 3072, 6 << 10, "0x51", (0x001,)),
    CpuModel("a64fx", 2, 2, 64, 640, 0, "0x46", (0x001,)),
    CpuModel("tsv110", 2, 2, 64, 512, 32 << 10, "0x48", (0xD01,)),
    CpuModel("thunderx2t99", 2, 2, 32, 256, 32 << 10, "0x43", (0x0AF,)),
)
"""The microarchitectures whose ports and caches are known."""

_BY_NAME = {name: model for model in MODELS for name in model.names.split()}


def named(name: str) -> CpuModel | None:
    """The row of LLVM's name of a CPU; None where there is none."""
    return _BY_NAME.get(name)


def identified(vendor: str, number: int) -> CpuModel | None:
    """The row of an identity in `/proc/cpuinfo`; None where there is none.

    Args:
      vendor: vendor and family, `AuthenticAMD 23`, or ARM's implementer, `0x41`.
      number: the model of the family, or ARM's part.
    """
    return next((m for m in MODELS if m.vendor == vendor and number in m.ids), None)


def usual(architecture: str, features: Collection[str]) -> CpuModel:
    """The ports and caches that are usual for an instruction set.

    Args:
      architecture: `x86_64`, `aarch64` or another one.
      features: LLVM's names of its instruction sets.
    """
    if architecture == AARCH64:
        return _BY_NAME["neoverse-n2" if "sve2" in features else "cortex-a76"]
    if MATRIX_FEATURE in features:
        return _BY_NAME["sapphirerapids"]
    return _BY_NAME["x86-64-v4" if "avx512f" in features else "x86-64-v3"]
