"""Every tensor between two kernels of a model has a true reason, on four targets."""

import itertools

import pytest

from helpers import zoo
from helpers.models import records
from mlirfuse import explain

SAMPLE = [("resnet50", "cpu"), ("unet", "cuda"), ("moe", "rocm"), ("bert_block", "vulkan")]
"""A model on each target, of different kinds; `-m slow` runs all of them."""

ALL = [
    pytest.param(*pair, marks=() if pair in SAMPLE else pytest.mark.slow)
    for pair in itertools.product(records.MODELS, records.TARGETS)
]


@pytest.mark.parametrize(("name", "target"), ALL)
def test_no_boundary_without_a_true_reason(name, target):
    program = zoo.program(name, target)
    assert zoo.untrue(program.report) == []
    read = {boundary.source for boundary in program.report.boundaries}
    unread = set(range(len(program.kernels))) - read
    assert 1 <= len(unread) <= len(program.outputs)  # those that write results of the call


@pytest.mark.parametrize(("name", "target"), ALL)
def test_why_are_these_two_layers_two_kernels(name, target):
    """The answer for ops of both sides names the reason and what would change it."""
    report = zoo.program(name, target).report
    for boundary, sources, users in zoo.pairs(report):
        answer = explain.why(report, sources[-1], users[0])
        assert answer.startswith("no: "), boundary
        assert f"{boundary.reason.code}: {boundary.reason.text}" in answer
        assert boundary.hint in answer


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "target"), [*itertools.product(records.MODELS, zoo.GPUS_WITH_KERNELS)]
)
def test_kernels_of_ours_have_true_reasons_too(name, target):
    report = zoo.program(name, target, kernels=True).report
    assert report.dispatches["kernels"] > 0
    assert zoo.untrue(report) == []


@pytest.mark.slow
@pytest.mark.parametrize(("name", "target"), [*itertools.product(records.MODELS, records.TARGETS)])
def test_must_fuse_disproves_no_reason(name, target):
    """One boundary of each reason; those whose hint is `--must-fuse` are left out."""
    report = zoo.program(name, target).report
    asked = {}
    for boundary, sources, users in zoo.pairs(report):
        if boundary.reason not in zoo.FORCED:
            asked.setdefault(boundary.reason, (*sources, *users))
    wrong = {r.code: p for r, p in asked.items() if zoo.disproved(name, target, p)}
    assert wrong == {}
