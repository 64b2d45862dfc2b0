"""Scans along any dimension with their elementwise neighbors and flips."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from iree.compiler import ir

from mlirfuse.core import NoMatch
from mlirfuse.kernels.codegen.element_types import Unsupported
from mlirfuse.kernels.codegen.tile_writer import attempted
from mlirfuse.kernels.scan.analysis import SHARED, ScanAnalysis, analyze
from mlirfuse.kernels.vector import executable
from mlirfuse.kernels.vector.column_scan import ColumnScan
from mlirfuse.kernels.vector.executable import VectorKernel
from mlirfuse.kernels.vector.indexed import NotMerged
from mlirfuse.kernels.vector.row_scan import PackedScan, RowScan
from mlirfuse.kernels.vector.scan_kernel import ScanKernel
from mlirfuse.targets.base import CpuDevice

ENTRY = "scan"


def plan(region: ir.Operation, device: CpuDevice) -> VectorKernel | NoMatch | None:
    """Plans the kernel of a region with a scan; None for a region without one."""
    found = analyze(region)
    return plan_analysis(found, device) if isinstance(found, ScanAnalysis) else found


def plan_analysis(analysis: ScanAnalysis, device: CpuDevice) -> VectorKernel | NoMatch:
    """Plans the kernel of a scan."""
    return attempted(lambda: _plan(analysis, device), SHARED)


def replace(region: ir.Operation, kernel: VectorKernel) -> ir.Operation:
    """Replaces a region by a call of its kernel; returns the call."""
    return executable.replace(region, kernel, {})


def _plan(analysis: ScanAnalysis, device: CpuDevice) -> VectorKernel:
    if analysis.sizes[analysis.axis] == 1:
        raise Unsupported("a scan of one element")
    refusal = Unsupported("a scan")
    for made in _kernels(analysis, device):
        try:
            return made().write(ENTRY)
        except NotMerged as reason:
            refusal = reason
    raise refusal


def _kernels(analysis: ScanAnalysis, device: CpuDevice) -> Iterator[Callable[[], ScanKernel]]:
    """The kinds of kernels for a scan, the fastest first."""
    sizes, axis = analysis.sizes, analysis.axis
    inner = 1
    for size in sizes[axis + 1 :]:
        inner *= size
    if inner >= device.lanes:
        yield lambda: ColumnScan(analysis, device, merged=True)
    else:
        if 2 * inner * sizes[axis] <= device.lanes:
            yield lambda: PackedScan(analysis, device)
        yield lambda: RowScan(analysis, device)
    if inner > 1:
        yield lambda: ColumnScan(analysis, device, merged=False)
