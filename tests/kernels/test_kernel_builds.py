"""Kernels of the tests' shared builds are those that users get."""

import dataclasses
import subprocess

import pytest
from iree.compiler import ir

from helpers import kernel_builds
from helpers.kernel_runner import needs_triton, planned
from helpers.linalg_text import Function
from helpers.softmax_text import softmax_text
from mlirfuse.core import CompileFailedError
from mlirfuse.kernels import triton_compiler

pytestmark = needs_triton


def build(program, arch="sm_80"):
    triton_compiler.build.cache_clear()
    return triton_compiler.build(program, arch)


@pytest.fixture
def program():
    with ir.Context():
        _, (plan,) = planned(softmax_text((6, 44), "f16"), "rows")
        return plan.program


def test_a_kernel_is_built_once(program, monkeypatch):
    first = build(program)
    monkeypatch.setattr(kernel_builds, "_ask", lambda *_: pytest.fail("it was built"))
    assert build(program) == first
    for other, arch in ((program, "sm_90"), (dataclasses.replace(program, num_warps=2), "sm_80")):
        with pytest.raises(pytest.fail.Exception):
            build(other, arch)


def test_a_fork_builds_the_same_as_a_new_process(program, monkeypatch):
    broken = dataclasses.replace(program, source=program.source.replace("tl.store(", "tl.stored("))
    forked = build(program)
    with pytest.raises(CompileFailedError) as refused:
        build(broken)
    monkeypatch.setattr(triton_compiler, "subprocess", subprocess)
    assert build(program) == forked
    with pytest.raises(CompileFailedError) as expected:
        build(broken)
    assert str(refused.value) == str(expected.value)
    assert refused.value.returncode == expected.value.returncode


def test_a_fork_that_dies_is_a_failure_of_one_kernel(program):
    dies = program.source.replace("import triton\n", "import os, triton\nos.abort()\n", 1)
    assert "os.abort" in dies
    with pytest.raises(CompileFailedError) as refused:
        build(dataclasses.replace(program, source=dies))
    assert refused.value.returncode == -6
    build(dataclasses.replace(program, num_stages=1))


def test_the_sum_of_a_whole_tensor_is_built():
    """A scalar result: Triton refuses a tile that is stored through one pointer."""
    f = Function("main", (37,))
    x = f.argument((0,), "f32")
    with ir.Context():
        total = f.reduce("arith.addf", f.apply("arith.mulf", x, x), (0,))
        _, (plan,) = planned(f.finish(total), "rows")
        assert build(plan.program)
