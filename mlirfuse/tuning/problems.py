"""A module for each kernel problem, so that a configuration can be measured from its entry alone.

text = module_of(MatmulProblem(4096, 4096, 4096, 1))     MLIR with one region of this problem
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator

from iree.compiler import ir

from mlirfuse.kernels.attention.problem import AttentionProblem
from mlirfuse.kernels.convolution.problem import ConvolutionProblem
from mlirfuse.kernels.matmul.problem import MatmulProblem
from mlirfuse.kernels.pointwise.problem import PointwiseProblem
from mlirfuse.kernels.problem import Problem
from mlirfuse.kernels.reduction.problem import ReductionProblem
from mlirfuse.kernels.registry import FAMILY_OF_ENTRY
from mlirfuse.tuning.problem_modules import reduction

COMMON: tuple[Problem, ...] = (
    *(
        MatmulProblem(m, n, k, batch, b_k_contiguous=contiguous)
        for m, n, k, batch, contiguous in (
            (4096, 4096, 4096, 1, True),
            (4096, 4096, 4096, 1, False),
            (8192, 28672, 8192, 1, True),
            (8192, 3072, 768, 1, True),
            (4096, 1024, 512, 1, False),
            (512, 768, 768, 1, True),
            (16, 4096, 4096, 1, True),
            (16, 4096, 4096, 1, False),
            (1, 4096, 14336, 1, True),
            (1, 14336, 4096, 1, False),
            (512, 512, 64, 64, True),
        )
    ),
    MatmulProblem(1024, 14336, 4096, 1, accumulators=2),
    MatmulProblem(16, 14336, 4096, 1, accumulators=2),
    AttentionProblem(1024, 1024, 64, 128),
    AttentionProblem(4096, 4096, 128, 32, mask="causal"),
    AttentionProblem(1024, 1024, 128, 64),
    AttentionProblem(512, 512, 64, 96, mask="causal"),
    ConvolutionProblem(401408, 64, 3, 49, k_contiguous=False),
    *(
        ConvolutionProblem(*sizes, k_contiguous=False)
        for sizes in (
            (100352, 64, 64, 9),
            (100352, 64, 256, 1),
            (100352, 256, 64, 1),
            (25088, 128, 128, 9),
            (6272, 256, 1024, 1),
            (6272, 256, 256, 9),
            (1568, 512, 512, 9),
            (1568, 2048, 512, 1),
        )
    ),
    PointwiseProblem(67108864, "error function"),
    PointwiseProblem(67108864, "transposed"),
    *(
        ReductionProblem(rows, columns, combiners, moved, moved, narrow_result=narrow)
        for rows, columns in ((16384, 1024), (16384, 4096), (16384, 8192), (2048, 32768))
        for combiners, moved, narrow in (
            (reduction.RMS_NORM, 1, False),
            (reduction.LAYER_NORM, 1, False),
            (reduction.RMS_NORM, 2, False),
            (reduction.LAYER_NORM, 2, False),
            (reduction.RMS_NORM, 1, True),
            (reduction.SOFTMAX, 1, False),
        )
    ),
)
"""The problems that `mlirfuse-tune --kernels` measures when it is given no model."""


def module_of(problem: Problem) -> str:
    """A module, as MLIR text, whose one region has a problem.

    Raises:
      ValueError: no region is known for the problem; the message names the obstacle.
    """
    family = FAMILY_OF_ENTRY[problem.family].name
    writer = importlib.import_module(f"mlirfuse.tuning.problem_modules.{family}")
    text: str = writer.module_text(problem)
    return text


def modules(problems: Iterable[Problem] = COMMON) -> Iterator[ir.Module]:
    """The modules of some problems; they need a context."""
    for problem in problems:
        yield ir.Module.parse(module_of(problem))
