"""A measured entry can be measured again: its problem has a module with that problem."""

import dataclasses
import json
from importlib import resources

import pytest
from iree.compiler import ir

from mlirfuse import targets
from mlirfuse.kernels.attention.problem import AttentionProblem
from mlirfuse.kernels.convolution.problem import ConvolutionProblem
from mlirfuse.kernels.data_movement.problem import ConcatProblem
from mlirfuse.kernels.matmul.problem import MatmulProblem
from mlirfuse.kernels.pointwise.problem import PointwiseProblem
from mlirfuse.kernels.pooling.problem import PoolingProblem
from mlirfuse.kernels.problem import Problem
from mlirfuse.kernels.reduction.problem import ReductionProblem
from mlirfuse.kernels.registry import FAMILIES, FAMILY_OF_ENTRY
from mlirfuse.kernels.scatter.problem import ScatterProblem
from mlirfuse.tuning import kernel_search, problems

TARGET = targets.parse("cuda:sm_90")

IMPOSSIBLE: dict[Problem, str] = {}
"""Measured problems without a module -> the reason."""


def entries():
    text = resources.files("mlirfuse.kernels.configs").joinpath("cuda_sm_90.json")
    document = json.loads(text.read_text("utf-8"))
    found = {}
    for entry in (*document["configs"], *document["baselines"]):
        family = FAMILY_OF_ENTRY[entry["family"]]
        found[family.problem_type.from_dict(entry["problem"])] = family.name
    return found


def problems_of(text):
    """The problem of a module's region, by family."""
    with ir.Context():
        module = ir.Module.parse(text)
        assert module.operation.verify()
        (region,) = kernel_search.regions(module)
        answers = {name: family.problem(region, TARGET) for name, family in FAMILIES.items()}
    return {name: found for name, found in answers.items() if isinstance(found, Problem)}


@pytest.mark.parametrize("name", sorted({*entries().values()}))
def test_every_measured_problem_has_a_module(name):
    for problem, family in entries().items():
        if family == name and problem not in IMPOSSIBLE:
            assert problems_of(problems.module_of(problem)) == {name: problem}


def test_every_measured_configuration_has_its_kernel():
    """No family replaces it by the computed one, which a measurement would then be of."""
    text = resources.files("mlirfuse.kernels.configs").joinpath("cuda_sm_90.json")
    replaced = []
    for entry in json.loads(text.read_text("utf-8"))["configs"]:
        if entry["config"] is None:
            continue
        family = FAMILY_OF_ENTRY[entry["family"]]
        problem = family.problem_type.from_dict(entry["problem"])
        config = family.config_type.from_dict(entry["config"])
        default = family.default_config(problem, TARGET)
        with ir.Context():
            module = ir.Module.parse(problems.module_of(problem))
            (region,) = kernel_search.regions(module)
            plans = [family.plan(region, TARGET, each) for each in (config, default)]
            if config != default and plans[0].program == plans[1].program:
                replaced.append(entry)
    assert replaced == []


OTHERS = (
    MatmulProblem(128, 80, 64, 1, a_k_contiguous=False),
    MatmulProblem(128, 80, 64, 1, operand_bits=8),
    MatmulProblem(128, 80, 64, 1, operand_bits=32),
    MatmulProblem(128, 80, 64, 1, prologue=True),
    AttentionProblem(64, 96, 32, 4, mask="general"),
    AttentionProblem(64, 96, 32, 4, operand_bits=32),
    ConvolutionProblem(49, 8, 16, 9, channels_last=False, k_contiguous=False),
    ConcatProblem(4096, 3, 8),
    PoolingProblem(100, 64, "3x3"),
    ReductionProblem(10, 20, "arith.addf", 3, 2),
    ReductionProblem(10, 20, "arith.addf arith.addf", 2, 2, operand_bits=32),
    ReductionProblem(10, 20, "arith.addf", 1, 1, narrow_result=True, operand_bits=32),
    ScatterProblem(10, 20),
    ScatterProblem(10, 20, 16, "store"),
    ScatterProblem(10, 20, 64, "plain"),
)


@pytest.mark.parametrize("problem", OTHERS, ids=str)
def test_other_problems_have_a_module(problem):
    family = FAMILY_OF_ENTRY[problem.family].name
    assert problems_of(problems.module_of(problem)) == {family: problem}


@pytest.mark.parametrize(
    "problem",
    [
        MatmulProblem(16, 16, 16, 64, prologue=True, accumulators=2),
        MatmulProblem(16, 16, 16, 1, operand_bits=64),
        ConvolutionProblem(49, 8, 16, 4),
        PointwiseProblem(1024, result_bits=8),
        PoolingProblem(10, 4, "3"),
        ConcatProblem(10, 1),
        ReductionProblem(4, 4, "arith.maxnumf", 1, 1),
        dataclasses.replace(ReductionProblem(4, 4, "arith.addf", 1, 1), writes=2),
        ScatterProblem(10, 20, 32, "compare_and_swap"),
    ],
)
def test_no_module_is_an_error(problem):
    with pytest.raises(ValueError, match=r"^(a|an|several) "):
        problems.module_of(problem)
