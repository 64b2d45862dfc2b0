"""Kernels are built several at a time by forks of a server, and kept on disk."""

import dataclasses
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from iree.compiler import ir

import mlirfuse
from helpers.kernel_runner import needs_triton, planned
from helpers.linalg_text import Function
from helpers.softmax_text import softmax_text
from mlirfuse.core import CompileFailedError
from mlirfuse.kernels import build_server, triton_compiler
from mlirfuse.support.disk_cache import KERNELS_VARIABLE

pytestmark = needs_triton

ROOT = Path(__file__).parents[2]


def build(program, arch="sm_80"):
    triton_compiler.forget()
    return triton_compiler.build(program, arch)


@pytest.fixture
def program():
    with ir.Context():
        _, (plan,) = planned(softmax_text((6, 44), "f16"), "rows")
        return plan.program


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv(KERNELS_VARIABLE, str(tmp_path / "kernels"))


def fails(*_):
    pytest.fail("it was built")


def test_a_kernel_is_built_once(program, monkeypatch):
    first = build(program)
    monkeypatch.setattr(build_server, "run", fails)
    assert build(program) == first
    for other, arch in ((program, "sm_90"), (dataclasses.replace(program, num_warps=2), "sm_80")):
        with pytest.raises(pytest.fail.Exception):
            build(other, arch)


def test_a_damaged_kernel_is_built_again(program, empty_cache, tmp_path):
    first = build(program)
    (kept,) = (tmp_path / "kernels").glob("*.kernel")
    kept.write_bytes(kept.read_bytes()[:-1])
    assert build(program) == first


def test_a_fork_builds_the_same_as_a_new_process(program, empty_cache, tmp_path, monkeypatch):
    broken = dataclasses.replace(program, source=program.source.replace("tl.store(", "tl.stored("))
    forked = build(program)
    with pytest.raises(CompileFailedError) as refused:
        build(broken)
    monkeypatch.setattr(build_server, "SERVES", False)
    monkeypatch.setenv(KERNELS_VARIABLE, str(tmp_path / "others"))
    assert build(program) == forked
    with pytest.raises(CompileFailedError) as expected:
        build(broken)
    assert str(refused.value) == str(expected.value)
    assert refused.value.returncode == expected.value.returncode


def test_a_fork_that_dies_is_a_failure_of_one_kernel(program, empty_cache):
    dies = program.source.replace("import triton\n", "import os, triton\nos.abort()\n", 1)
    assert "os.abort" in dies
    with pytest.raises(CompileFailedError) as refused:
        build(dataclasses.replace(program, source=dies))
    assert refused.value.returncode == -6
    build(dataclasses.replace(program, num_stages=1))


def test_a_build_that_never_ends(program, empty_cache, monkeypatch):
    monkeypatch.setattr(triton_compiler, "BUILD_SECONDS", 2)
    sleeps = program.source.replace("import triton\n", "import time, triton\ntime.sleep(60)\n", 1)
    with pytest.raises(CompileFailedError, match="ran out of time after 2 s"):
        build(dataclasses.replace(program, source=sleeps))


def test_a_server_that_died_is_replaced(program, empty_cache, monkeypatch):
    monkeypatch.setattr(build_server, "_server", build_server._Server())
    path = build_server.socket_path()
    os.unlink(path)
    build(program)
    assert build_server.socket_path() != path


def test_kernels_are_built_at_the_same_time(program, empty_cache, monkeypatch):
    """Two builds wait for each other; one after the other they would never end."""
    both, run = threading.Barrier(2, timeout=60), build_server.run

    def meet(*arguments):
        both.wait()
        return run(*arguments)

    monkeypatch.setattr(build_server, "run", meet)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    triton_compiler.forget()
    programs = [dataclasses.replace(program, num_warps=warps) for warps in (1, 2)]
    triton_compiler.prefetch(programs, "sm_80")
    assert len({triton_compiler.build(p, "sm_80").code for p in programs}) == 2
    triton_compiler.forget()


FORKS = """
import dataclasses, os, sys
sys.path[:0] = sys.argv[1:]
from iree.compiler import ir
from helpers.kernel_runner import planned
from helpers.softmax_text import softmax_text
from mlirfuse.kernels import triton_compiler

with ir.Context():
    _, (plan,) = planned(softmax_text((6, 44), "f16"), "rows")
    triton_compiler.build(plan.program, "sm_80")
    child = os.fork()
    triton_compiler.build(dataclasses.replace(plan.program, num_warps=2), "sm_80")
    if child == 0:
        os._exit(0)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
"""A process of its own: JAX warns of every fork of a process that has imported it."""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_of_the_process_builds(empty_cache):
    """It has none of the threads that wait for builds."""
    done = subprocess.run(
        [sys.executable, "-c", FORKS, *(p for p in sys.path if p.startswith(str(ROOT)))],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


def test_the_server_ends_with_its_process():
    code = (
        "from mlirfuse.kernels import build_server; print(build_server.socket_path(), flush=True)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip()
    assert not os.path.exists(done.stdout.strip())


def test_the_sum_of_a_whole_tensor_is_built():
    """A scalar result: Triton refuses a tile that is stored through one pointer."""
    f = Function("main", (37,))
    x = f.argument((0,), "f32")
    with ir.Context():
        total = f.reduce("arith.addf", f.apply("arith.mulf", x, x), (0,))
        _, (plan,) = planned(f.finish(total), "rows")
        assert build(plan.program)


class Attention(torch.nn.Module):
    def forward(self, q, k, v):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v)


class Product(torch.nn.Module):
    def forward(self, x, w):
        return torch.nn.functional.linear(x, w)


class Convolution(torch.nn.Module):
    def forward(self, x, w):
        return torch.nn.functional.conv2d(x, w, padding=1).relu()


MODELS = {
    "attention": (Attention(), [(2, 32, 2048, 128)] * 3),
    "matmul": (Product(), [(512, 4096), (4096, 4096)]),
    "convolution": (Convolution(), [(32, 64, 56, 56), (64, 64, 3, 3)]),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("refused", [(), ("gluon",), ("gluon", "triton")])
def test_a_kernel_in_gluon_that_is_refused_has_a_portable_one(monkeypatch, name, refused):
    """Once: what Triton refuses is not tried again; IREE has what no kernel computes."""
    tried = []

    def compiled(program, arch):
        kind = "gluon" if program.in_gluon else "triton"
        if not program.entry.startswith(("elementwise", "concat")):
            tried.append(kind)
        if kind in refused:
            raise CompileFailedError("refused", stage="kernel", returncode=1)
        return original(program, arch)

    original = triton_compiler._compiled
    triton_compiler.forget()
    monkeypatch.setattr(triton_compiler, "_compiled", compiled)
    model, shapes = MODELS[name]
    arguments = tuple(torch.zeros(shape, dtype=torch.float16) for shape in shapes)
    made = mlirfuse.compile(model, arguments, target="cuda:sm_90", cache=False)
    triton_compiler.forget()
    assert tried == ["gluon", "triton"][: len(refused) + 1]
    assert any(kernel.code == "iree" for kernel in made.report.kernels) == (len(refused) == 2)
