"""A shell that asks for completions gets them, from every command."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = ("opt", "compile", "run", "profile", "bench", "bisect", "tune", "plan")


@pytest.fixture
def complete(tmp_path):
    pytest.importorskip("argcomplete", reason="argcomplete is in the extra 'completion'")

    def complete(line):
        answer = tmp_path / "answer"
        tool = line.split()[0]
        environment = {
            "_ARGCOMPLETE": "1",
            "_ARGCOMPLETE_IFS": "\n",
            "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
            "_ARGCOMPLETE_SUPPRESS_SPACE": "1",
            "COMP_LINE": line,
            "COMP_POINT": str(len(line)),
            "COMP_TYPE": "9",
        }
        done = subprocess.run(
            [str(Path(sys.executable).with_name(tool))],
            env={**os.environ, **environment},
            cwd=tmp_path,
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return answer.read_text().split()

    return complete


@pytest.mark.parametrize("tool", TOOLS)
def test_every_command_completes_its_switches(tool, complete):
    assert "--version" in complete(f"mlirfuse-{tool} --ver")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("mlirfuse-opt --disable-pass=softm", "softmax_fusion"),
        ("mlirfuse-opt --disable-pass softm", "softmax_fusion"),
        ("mlirfuse-compile --disable-pass=cse,softm", "cse,softmax_fusion"),
        ("mlirfuse-compile --target=vu", "vulkan"),
        ("mlirfuse-bench --against=stock,op", "stock,openvino"),
        ("mlirfuse-opt --numerics=ex", "exact"),
        ("mlirfuse-opt --disable-feature=fm", "fma"),
        ("mlirfuse-run --guard=o", "off"),
    ],
)
def test_values(line, expected, complete):
    # Bash replaces the part after `=` alone, other shells the whole word.
    words = [word.rpartition("=")[2] for word in complete(line)]
    typed = re.split("[ =]", line)[-1]
    assert expected in words
    assert all(word.startswith(typed) for word in words)
    assert len(words) < 10


def test_files(tmp_path, complete):
    (tmp_path / "model.mlir").touch()
    assert complete("mlirfuse-opt mod") == ["model.mlir"]


def test_a_command_runs_where_the_package_is_missing(monkeypatch, capsys):
    from mlirfuse.tools.opt import main

    monkeypatch.setitem(sys.modules, "argcomplete", None)
    monkeypatch.setenv("_ARGCOMPLETE", "1")
    assert main(["--list-passes"]) == 0
    assert "softmax_fusion" in capsys.readouterr().out
