"""Modelled times of row reductions: rows in registers, and loops over their columns.

    rows in registers    one kernel; the CTAs of a cluster wait for each other at each reduction
    loops in splits      a kernel for each pass over the columns, one more for results with columns

A kernel takes a fixed time, that of its bytes, that of its instructions and that of its waits. The
CTAs that an SM holds at a time hide each other's instructions and waits; SMs without a CTA move no
bytes. A pass finds in L2 as much of the rows as L2 holds.

The constants are fitted to group norms, batch norms and layer norms of 0.5 to 130 MB of an H100, in
registers and in torch.compile's kernels of parts of rows; that of an exchange in a cluster to an
H200, norms of which `test_reduction_cost_model.py` has.
"""

from __future__ import annotations

import dataclasses

from mlirfuse.kernels.configs.device import gpu_of
from mlirfuse.kernels.matmul.cost_model import vector_bytes
from mlirfuse.kernels.matmul.problem import VECTOR_BYTES
from mlirfuse.kernels.reduction.distribution import Distribution
from mlirfuse.kernels.reduction.problem import ReductionConfig, ReductionProblem
from mlirfuse.targets.base import GpuDevice, Target

KERNEL_US = 1.9
"""Microseconds from the start of a kernel to its end, where there is little to do: half the time of
torch.compile's two kernels for 0.3 MB."""

CLUSTER_US = 0.8
"""Microseconds that a kernel of clusters takes longer to start."""

EXCHANGE_US = 0.4
"""Microseconds of a reduction of a CTA and of the exchange with those of its cluster."""

PROLOGUE_US = 0.3
"""Microseconds of a CTA of a split outside of its loop, beside those of `KERNEL_US`."""

FINISH_INSTRUCTIONS = 150
"""Instructions of a thread of a CTA of a split for each accumulator after its loop. On an H200 the
variance of 1976040 f16 took 8.2 us in 965 splits, 6.0 in 528 and 6.1 in 264; of the hyperbolic
tangents of 1826688 f32 11.1 us in 892, 9.4 in 528 and 8.1 in 264."""

ITERATION_US = 0.8
"""Microseconds of an iteration of a loop over columns, a load after the other: the latency of
memory. That of the first one is in `KERNEL_US`."""

INSTRUCTIONS = 30
"""Instructions for an element of a norm with its epilogue."""

HEAVY_INSTRUCTIONS = 90
"""The same of heavy problems of many rows, whose registers leave an SM one CTA of all threads: what
they compute hides no load. On an H200 cosines of group norms of 864 rows of 116224 f16 took 443 us
in registers and 199 in loops, hyperbolic tangents of 2400 rows of 32768 117 and 102; but GELUs of
256 rows of 65536 38 and 40, of 64 of 40960 10 and 12."""

PASS_INSTRUCTIONS = 20
"""Instructions for an element of a pass over columns."""

MAX_SM_SHARE = 3
"""Bandwidth of an SM whose neighbors are idle, in shares of the device's."""

L2_RATE = 1.5
"""Rate at which L2 is read, in rates of memory."""

FIXED_REGISTERS = 24
"""Registers of a thread for addresses and numbers of rows."""

PARTIAL_BYTES = 4


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The work of the CTAs of a kernel.

    Attributes:
      ctas: number of CTAs.
      threads: threads of a CTA.
      registers: registers of a thread.
      num_bytes: bytes that a CTA moves; those of L2 count for less.
      instructions: instructions of a CTA, of single threads.
      iterations: iterations of its loop after the first one.
      waits: microseconds in which a CTA does nothing else.
    """

    ctas: int
    threads: int
    registers: int
    num_bytes: float
    instructions: int
    iterations: int = 0
    waits: float


def loads_scalars(problem: ReductionProblem) -> bool:
    """Whether contiguous rows of several tensors have no loads of whole vectors."""
    aligned = vector_bytes(problem.columns, problem.operand_bits) == VECTOR_BYTES
    return problem.reads > 1 and problem.contiguous_rows == 1 and not aligned


def resident_ctas(threads: int, registers: int, gpu: GpuDevice) -> int:
    """CTAs that an SM holds at a time, at least one."""
    by_registers = gpu.registers_per_sm // (threads * registers)
    return max(1, min(gpu.max_threads_per_sm // threads, by_registers))


def kernel_us(load: Load, target: Target) -> float:
    """Modelled microseconds of a kernel."""
    gpu = gpu_of(target)
    resident = resident_ctas(load.threads, load.registers, gpu)
    per_sm = -(-load.ctas // gpu.num_sms)
    waves = -(-load.ctas // (resident * gpu.num_sms))
    together = min(resident, per_sm)
    of_sm = per_sm * gpu.num_sms / MAX_SM_SHARE
    memory = 1e6 * max(load.ctas, of_sm) * load.num_bytes / target.bandwidth
    rate = target.vector_rate / 2 / gpu.num_sms
    busy = 1e6 * per_sm * load.instructions / rate
    waits = waves * (load.waits + load.iterations * ITERATION_US)
    return KERNEL_US + memory + (busy + waits) / together


def registers_us(problem: ReductionProblem, tiles: Distribution, target: Target) -> float:
    """Modelled microseconds of a kernel that holds rows in registers."""
    gpu = gpu_of(target)
    threads = tiles.num_warps * gpu.warp_size
    elements = tiles.rows * tiles.columns
    shared = tiles.cluster_size > 1
    row = -(-problem.columns // tiles.cluster_size) * tiles.rows
    load = Load(
        ctas=-(-problem.rows // tiles.rows) * tiles.cluster_size,
        threads=threads,
        registers=FIXED_REGISTERS + 2 * elements // threads,
        num_bytes=row * _row_bytes(problem, problem.reads + problem.writes),
        instructions=row * (HEAVY_INSTRUCTIONS if problem.heavy else INSTRUCTIONS),
        waits=len(problem.combiners.split()) * EXCHANGE_US * (1.0 if shared else 0.5),
    )
    return kernel_us(load, target) + (CLUSTER_US if shared else 0.0)


def loops_us(problem: ReductionProblem, config: ReductionConfig, target: Target) -> float:
    """Modelled microseconds of the kernels of loops over columns: of one without splits."""
    gpu, splits = gpu_of(target), config.splits
    height, width = config.block_rows, config.block_columns
    iterations = -(-problem.columns // (splits * width))
    columns = min(iterations * width, problem.columns)
    elements, threads = height * columns, config.num_warps * gpu.warp_size
    read = elements * _row_bytes(problem, problem.reads)
    all_read = problem.rows * problem.columns * _row_bytes(problem, problem.reads)
    # Reductions of indices, or of scalars, read nothing along the columns.
    in_l2 = min(1.0, gpu.l2_bytes / all_read) if all_read else 1.0
    later = read * (1.0 - in_l2 + in_l2 / L2_RATE)
    if splits > 1:
        later += splits * height * _accumulators(problem) * PARTIAL_BYTES / L2_RATE
    num_bytes = [read, *[later] * (problem.passes - 1)]
    if problem.writes:
        num_bytes.append(later + elements * _row_bytes(problem, problem.writes))
    each = Load(
        ctas=-(-problem.rows // height) * -(-problem.columns // columns),
        threads=threads,
        registers=loop_registers(problem, height * width // threads),
        num_bytes=0.0,
        instructions=elements * PASS_INSTRUCTIONS + threads * _finish(problem, splits),
        iterations=iterations - 1,
        waits=PROLOGUE_US,
    )
    if splits == 1:
        count = len(num_bytes)
        whole = dataclasses.replace(
            each,
            num_bytes=sum(num_bytes),
            instructions=count * each.instructions,
            iterations=count * iterations - 1,
        )
        return kernel_us(whole, target)
    found = sum(kernel_us(dataclasses.replace(each, num_bytes=n), target) for n in num_bytes)
    # A last kernel combines the partial results of rows alone.
    return found if problem.writes else found + KERNEL_US


def _finish(problem: ReductionProblem, splits: int) -> int:
    """Instructions of a thread after the loop of a split of numbers; those of norms are fitted."""
    return FINISH_INSTRUCTIONS * _accumulators(problem) if splits > 1 and not problem.writes else 0


def loop_registers(problem: ReductionProblem, elements: int) -> int:
    """Registers of a thread of a loop that loads so many elements of each tensor at a time."""
    loaded = problem.reads * problem.operand_bits / 32
    return FIXED_REGISTERS + int(elements * (loaded + _accumulators(problem)))


def _accumulators(problem: ReductionProblem) -> int:
    """Accumulators of a lane: a sum around another reduction has two."""
    reductions = len(problem.combiners.split())
    return reductions + (reductions > problem.passes)


def _row_bytes(problem: ReductionProblem, tensors: int) -> float:
    """Bytes of a column of so many tensors."""
    return tensors * problem.operand_bits / 8
