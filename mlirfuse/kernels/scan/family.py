"""The family of scans: cumulative ops along any dimension, with elementwise neighbors.

  %y = flow.dispatch.region { one scan, elementwise ops, flips }
becomes
  scan_kernel: blocks with a carried prefix, segments in CTAs of their own for few and long scans
"""

from __future__ import annotations

from mlirfuse.core import NoMatch
from mlirfuse.kernels.family import KernelFamily
from mlirfuse.kernels.plan import Plan
from mlirfuse.kernels.scan import heuristics
from mlirfuse.kernels.scan.analysis import ScanAnalysis, analyze, problem_of
from mlirfuse.kernels.scan.block_scan import BlockScan
from mlirfuse.kernels.scan.problem import ScanConfig, ScanProblem
from mlirfuse.kernels.scan.serial_scan import SerialScan
from mlirfuse.targets.base import Target


def plan_scan(
    analysis: ScanAnalysis, target: Target, config: ScanConfig | None = None
) -> Plan | NoMatch:
    """Plans the kernels of a scan.

    Args:
      analysis: the scan.
      target: the target.
      config: a given configuration; else the nearest measured, or the computed one.
    """
    chosen = config or heuristics.choose_config(problem_of(analysis), target)
    return (SerialScan if chosen.serial else BlockScan)(analysis, chosen).plan()


SCAN = KernelFamily(
    name="scan",
    problem_type=ScanProblem,
    config_type=ScanConfig,
    analyze=analyze,
    problem_of=problem_of,
    plan_analysis=plan_scan,
    default_config=heuristics.default_config,
    configs=heuristics.configs,
)
