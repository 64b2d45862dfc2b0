"""Variables of a system's process: its number of threads, and its instruction set."""

from __future__ import annotations

from mlirfuse.support.environment_numbers import THREADS_VARIABLE
from mlirfuse.targets import cpu
from mlirfuse.targets.cpu_models import X86_64

_AVX2 = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
}
"""Variables of PyTorch's own code, of MKL and of oneDNN that limit them to AVX2."""

_AVX2_XLA = "--xla_cpu_max_isa=AVX2"


def limited_to_avx2(arch: str) -> bool:
    """Whether the target is a named CPU with AVX2 and nothing wider.

    Args:
      arch: LLVM's name of the CPU, or `host`.
    """
    return arch != "host" and cpu.instruction_set(cpu.device(arch, X86_64)) == "avx2"


def environment(threads: int, arch: str) -> dict[str, str]:
    """The variables.

    Args:
      threads: number of threads.
      arch: LLVM's name of the CPU, or `host`.
    """
    count = str(threads)
    found = {
        THREADS_VARIABLE: count,
        "OMP_NUM_THREADS": count,
        "MKL_NUM_THREADS": count,
        "NPROC": count,  # the threads of XLA's pools
        # Processes that compile would not stop with their parent.
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    return found | (_AVX2 | {"XLA_FLAGS": _AVX2_XLA} if limited_to_avx2(arch) else {})
