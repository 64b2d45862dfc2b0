import contextlib
import os
import stat
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import pytest

import mlirfuse
from mlirfuse import targets
from mlirfuse.backend import compiler, statistics
from mlirfuse.backend.compiler import Compiler
from mlirfuse.core import CompileFailedError, UsageError
from mlirfuse.options import FusionOptions
from mlirfuse.support import subprocess
from mlirfuse.support.atomic_file import replacing
from mlirfuse.support.subprocess import DIAGNOSTICS_BYTES, MESSAGE_CHARS, find_tool, run_tool

PROGRAM = """
func.func @main(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %y = math.tanh %x : tensor<8x16xf32>
  return %y : tensor<8x16xf32>
}
"""

WEIGHTS = "dense<[{}]>".format(
    ", ".join("[" + ", ".join(f"{(7 * i + j) % 5}.0" for j in range(32)) + "]" for i in range(64))
)
CONSTANT_MATMUL = f"""
func.func @main(%x: tensor<48x64xf32>) -> tensor<48x32xf32> {{
  %w = arith.constant {WEIGHTS} : tensor<64x32xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<48x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<48x32xf32>) -> tensor<48x32xf32>
  %m = linalg.matmul ins(%x, %w : tensor<48x64xf32>, tensor<64x32xf32>)
                     outs(%f : tensor<48x32xf32>) -> tensor<48x32xf32>
  return %m : tensor<48x32xf32>
}}
"""


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Put a Python script in place of every tool."""

    def install(body):
        path = tmp_path / "tool"
        path.write_text(f"#!{sys.executable}\n{textwrap.dedent(body)}")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setattr(subprocess, "find_tool", lambda tool: path)

    return install


def failure(*arguments, **keywords):
    with pytest.raises(CompileFailedError) as caught:
        run_tool("iree-compile", arguments, stage="codegen", **keywords)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < MESSAGE_CHARS + 120
    assert caught.value.stage == "codegen"
    return caught.value


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A zombie that its adoptive parent has not collected yet is dead all the same.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


# --- one tool ------------------------------------------------------------------------------------


def test_finds_the_tools_of_this_interpreter():
    for tool in ("iree-compile", "iree-opt", "iree-run-module"):
        assert os.access(find_tool(tool), os.X_OK)


def test_a_tool_that_is_not_installed():
    with pytest.raises(CompileFailedError, match=r"iree-nothing is not installed .* pip install"):
        find_tool("iree-nothing")


def test_returns_stderr_and_feeds_stdin(fake):
    fake("import sys; sys.stderr.write(sys.stdin.read().upper() + ' '.join(sys.argv[1:]))")
    assert run_tool("t", ["a b", "$c"], stage="codegen", stdin=b"x\n") == "X\na b $c"


def test_without_stdin_the_tool_reads_nothing(fake):
    fake("import sys; sys.stderr.write(repr(sys.stdin.read()))")
    assert run_tool("t", [], stage="codegen", timeout=20) == "''"


def test_a_tool_that_does_not_read_its_stdin(fake):
    fake("import os; os.close(0)")
    assert run_tool("t", [], stage="codegen", stdin=b"x" * (1 << 22)) == ""


def test_the_first_error_is_the_message(fake):
    fake(
        """
        import sys
        sys.stderr.write("warning: about nothing\\n"
                         "model.py:12:3: warning: also nothing\\n"
                         "model.py:14:8: error: 'linalg.foo' op is unknown\\n"
                         "model.py:15:8: error: failed to legalize\\n")
        sys.exit(1)
        """
    )
    error = failure()
    assert str(error) == (
        "iree-compile refused the program in stage codegen:"
        " model.py:14:8: error: 'linalg.foo' op is unknown"
    )
    assert error.returncode == 1
    assert "failed to legalize" in error.diagnostics


def test_a_long_message_is_cut(fake):
    fake("import sys; sys.stderr.write('a.mlir:1:1: error: ' + 'x ' * 10000); sys.exit(1)")
    assert str(failure()).endswith("...")


def test_a_fatal_error_without_a_location(fake):
    fake("import sys; sys.stderr.write('noise\\nLLVM ERROR: out of registers\\n'); sys.exit(1)")
    assert str(failure()).endswith("stage codegen: LLVM ERROR: out of registers")


def test_a_failure_that_says_nothing(fake):
    fake("raise SystemExit(3)")
    assert str(failure()).endswith("(exit code 3, no diagnostics)")


@pytest.mark.parametrize("name", ["SIGABRT", "SIGSEGV", "SIGKILL"])
def test_a_tool_that_dies(fake, name):
    fake(
        f"""
        import os, signal, sys
        sys.stderr.write("LLVM ERROR: bad\\n"); sys.stderr.flush()
        os.kill(os.getpid(), signal.{name})
        """
    )
    error = failure()
    assert f"iree-compile died with {name}" in str(error)
    assert "LLVM ERROR: bad" in str(error)
    assert error.returncode < 0
    assert ("memory" in str(error)) == (name == "SIGKILL")


def test_a_tool_that_hangs_is_killed_with_all_that_it_started(fake, tmp_path):
    fake(
        f"""
        import subprocess, sys, time
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        open({str(tmp_path / "pid")!r}, "w").write(str(child.pid))
        sys.stderr.write("still thinking\\n"); sys.stderr.flush()
        time.sleep(60)
        """
    )
    began = time.monotonic()
    error = failure(timeout=2)
    assert time.monotonic() - began < 20
    assert "ran out of time in stage codegen after 2 s" in str(error)
    assert "--timeout" in str(error)
    assert error.returncode is None
    assert error.diagnostics == "still thinking\n"
    child = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 10
    while alive(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(child)


def test_an_interrupt_kills_the_tool(fake, monkeypatch):
    fake("import time; time.sleep(60)")
    started = []
    popen = subprocess.subprocess.Popen

    class Interrupted(popen):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            started.append(self)

        def wait(self, timeout=None):
            if timeout == 1234:
                raise KeyboardInterrupt
            return super().wait(timeout)

    monkeypatch.setattr(subprocess.subprocess, "Popen", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_tool("t", [], stage="codegen", timeout=1234)
    assert started[0].returncode == -9


def test_a_flood_of_diagnostics_neither_blocks_nor_fills_memory(fake):
    fake("import sys; sys.stderr.write('y' * (9 << 20))")
    assert len(run_tool("t", [], stage="codegen", timeout=60)) == DIAGNOSTICS_BYTES


# --- iree-compile --------------------------------------------------------------------------------


def compile_with(text, tmp_path, *, spec="cpu", fused=True, **switches):
    source = tmp_path / "in.mlir"
    source.write_text(text)
    work = Compiler(targets.parse(spec), FusionOptions(**switches))
    work.normalize(source, tmp_path / "go.mlirbc", input_type="none")
    return work, work.generate(tmp_path / "go.mlirbc", tmp_path / "out.vmfb", fused=fused)


def test_counts_the_dispatches_of_a_call(tmp_path):
    work, found = compile_with(CONSTANT_MATMUL, tmp_path, fused=False)
    assert (found.dispatches, found.kernels, len(found.left)) == (1, 0, 1)
    assert work.count(tmp_path / "go.mlirbc", tmp_path).dispatches == 1


def test_packing_weights_is_no_dispatch_of_a_call(tmp_path):
    """With data tiling the program packs %x, multiplies, unpacks; %w is packed once, at loading."""
    _, found = compile_with(CONSTANT_MATMUL, tmp_path)
    names = (tmp_path / "out.csv").read_text()
    assert "util.initializer" in names
    total = names.count('"dispatch"')
    assert 1 <= found.dispatches < total


STATISTICS = """
; builtin.module > util.initializer > stream.cmd.execute
"Depth","Command","Symbol","Length","Invocations","Workload","Operands","Resources"
0,"dispatch","@_initializer_0_dispatch_0::@_initializer_0_dispatch_0_pack",,1,"",0,1

; builtin.module > util.func @main > stream.cmd.execute
"Depth","Command","Symbol","Length","Invocations","Workload","Operands","Resources"
0,"dispatch","@extern_dispatch::@cuda_nvptx_fb::@row_kernel",,1,"",0,2
1,"copy",,16,1,"",0,2
1,"dispatch","@main_dispatch_0::@main_dispatch_0_scan_64x512xf32",,1,"",0,2
"""


def test_kernels_among_the_dispatches(tmp_path):
    path = tmp_path / "statistics.csv"
    path.write_text(STATISTICS)
    found = statistics.read(path)
    assert (found.dispatches, found.kernels) == (2, 1)
    assert found.left == ("main_dispatch_0_scan_64x512xf32",)


def test_data_tiling_is_for_fused_programs_only():
    work = Compiler(targets.parse("cpu"), FusionOptions())
    flag = "--iree-dispatch-creation-data-tiling"
    assert flag in work.flags(fused=True)
    assert flag not in work.flags(fused=False)
    off = Compiler(targets.parse("cpu"), FusionOptions(disable_feature=("data_tiling",)))
    assert flag not in off.flags(fused=True)


@pytest.mark.parametrize("spec", ["cpu:foo", "cpu:aarch64:foo", "cpu:x86_64:cortex-a76"])
def test_a_cpu_that_llvm_does_not_know(tmp_path, spec):
    with pytest.raises(UsageError, match=rf"unknown target '{spec}': LLVM knows no CPU .*x86-64"):
        compile_with(PROGRAM, tmp_path, spec=spec)


def test_iree_refuses_in_one_line():
    text = "func.func @main(%x: tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>> {\n"
    text += "  %y = complex.exp %x : tensor<4xcomplex<f32>>\n"
    text += "  return %y : tensor<4xcomplex<f32>>\n}\n"
    with pytest.raises(mlirfuse.MlirfuseError) as caught:
        mlirfuse.compile(text, cache=False, target="vulkan")
    assert "\n" not in str(caught.value)
    assert "error: " in str(caught.value)


@pytest.mark.parametrize("stage", ["global-optimization", "codegen"])
def test_a_compilation_that_fails_leaves_no_files(tmp_path, monkeypatch, stage):
    def run(tool, arguments, **keywords):
        if keywords["stage"] == stage:
            keywords["timeout"] = 0.001
        return run_tool(tool, arguments, **keywords)

    monkeypatch.setattr(compiler, "run_tool", run)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)  # its cached choice of a directory
    with pytest.raises(CompileFailedError, match=f"ran out of time in stage {stage}"):
        mlirfuse.compile(PROGRAM, cache=False)
    assert list(tmp_path.iterdir()) == []


# --- output files --------------------------------------------------------------------------------


def test_an_output_appears_whole(tmp_path):
    path = tmp_path / "out"
    path.write_text("old")
    with replacing(path) as staged:
        staged.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_an_output_of_work_that_failed_is_absent(tmp_path):
    with contextlib.suppress(ZeroDivisionError), replacing(tmp_path / "out") as staged:
        staged.write_text("half")
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_an_output_to_a_device():
    with replacing(Path(os.devnull)) as staged:
        staged.write_text("gone")
    assert not Path(os.devnull).is_file()


@pytest.mark.parametrize("name", ["missing/out", ".", "file/out"])
def test_an_output_that_cannot_be_written(tmp_path, name):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(UsageError, match=r"cannot write .*: \w") as caught,
        replacing(tmp_path / name),
    ):
        pytest.fail("a path that cannot be written was taken")
    assert "\n" not in str(caught.value)
