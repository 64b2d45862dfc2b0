"""A pass that is not ours and kills its process: an error of one line, and no file left."""

import re
import tempfile
from pathlib import Path

import pytest

import mlirfuse
from helpers import planted
from mlirfuse.core import PassFailedError, UsageError
from mlirfuse.patterns import PASSES
from mlirfuse.tools import bisect, tune
from mlirfuse.tools import compile as compiling

PASS = """
import os, signal
from mlirfuse.core import FusionPass, Kind, Match
from mlirfuse.structured.ir import ops

def match(root, ctx):
    return None if ops.in_region(root) else Match(root, (root,))

def rewrite(match, ctx):
    {rewrite}

PASS = FusionPass(
    name="users_own_rewrite", summary="", roots=("linalg.generic",),
    match=match, rewrite=rewrite, kind=Kind.REWRITE,
)
"""

ERASES = "match.root.erase()\n    return match.root"
RAISES = "print('printed'); raise KeyError('mine')"
ABORTS = "os.kill(os.getpid(), signal.SIGABRT)"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a model; all temporary files go to another one, which is returned."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLIRFUSE_CACHE_DIR", str(tmp_path / "cache"))
    Path("model.mlir").write_text(planted.ADD_RMS_NORM)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    return temporary


def write(rewrite):
    name = f"foreign_{abs(hash(rewrite))}"
    Path(f"{name}.py").write_text(PASS.format(rewrite=rewrite))
    return f"{name}:PASS"


def ends(rewrite):
    """How the pass ends: its erased op is seen as such, or is freed memory that is read."""
    if rewrite == ABORTS:
        return "died with SIGABRT"
    return "(died with SIGSEGV|failed at an op that it erased in main)"


@pytest.mark.parametrize("rewrite", [ERASES, ABORTS])
@pytest.mark.parametrize("tool", ["compile", "bisect", "python"])
def test_a_pass_that_kills_its_process(folder, capfd, tool, rewrite):
    switch = f"--load-pass={write(rewrite)}"
    if tool == "python":
        with pytest.raises(PassFailedError, match=f"'users_own_rewrite' {ends(rewrite)}") as raised:
            mlirfuse.compile("model.mlir", load_pass=write(rewrite), cache=False)
        assert raised.value.pass_name == "users_own_rewrite"
    elif tool == "compile":
        words = ["model.mlir", "-o", "out.vmfb", "--report=out.html", switch]
        assert compiling.main(words) == 1
    else:
        words = ["model.mlir", "--failure=compile", "-o", "found", switch]
        assert bisect.main(words) == 1
    if tool != "python":
        error = capfd.readouterr().err
        start = f"mlirfuse-{tool}: error: pass 'users_own_rewrite' "
        assert re.fullmatch(f"{start}{ends(rewrite)}.*\n", error)
    assert not list(folder.iterdir())
    left = {path.name for path in folder.parent.iterdir()}
    assert left - {"cache", "temporary", "found", "model.mlir", "__pycache__"} == {
        path.name for path in folder.parent.glob("foreign_*.py")
    }
    assert not list(folder.parent.rglob("*.vmfb"))


def test_the_tuner_is_one_of_them(folder, capfd, monkeypatch):
    monkeypatch.setenv("MLIRFUSE_FLAGS", f"--load-pass={write(ABORTS)}")
    assert tune.main(["model.mlir", "-o", "out.vmfb"]) == 1
    assert "pass 'users_own_rewrite' died with SIGABRT" in capfd.readouterr().err
    assert not list(folder.iterdir())
    assert not Path("out.vmfb").exists()


def test_a_pass_that_raises_is_its_authors_error(folder, capfd):
    """With its output; `fallback` contains passes of ours alone."""
    with pytest.raises(PassFailedError, match=r"'users_own_rewrite' failed at .*KeyError: 'mine'"):
        mlirfuse.compile("model.mlir", load_pass=write(RAISES), cache=False)
    assert "printed\n" in capfd.readouterr().err


def test_results_come_back_from_the_process(folder):
    """Groups, decisions and origins are those of a run in this process."""
    Path("sound.py").write_text(PASS.format(rewrite="return match.root"))
    switches = {"load_pass": "sound:PASS", "disable_pass": "users_own_rewrite"}
    program = mlirfuse.compile("model.mlir", cache=False, **switches)
    assert program.report.counts() == {"add_rms_norm_fusion": 1, "row_vector_kernel": 1}
    assert "users_own_rewrite" in {d.pass_name for d in program.report.decisions}


def test_faults_of_ours_are_logged_here(folder, caplog, monkeypatch):
    Path("sound2.py").write_text(PASS.format(rewrite="return match.root"))
    name = "add_rms_norm_fusion"
    Path("breaking.py").write_text(
        "import dataclasses\nfrom mlirfuse.patterns import PASSES\n"
        f"PASSES['{name}'] = dataclasses.replace(PASSES['{name}'], match=None)\n"
        "from sound2 import PASS\n"
    )
    monkeypatch.setitem(PASSES, name, PASSES[name])
    switches = {"load_pass": "breaking:PASS", "disable_pass": "users_own_rewrite"}
    mlirfuse.compile("model.mlir", cache=False, **switches)
    (record,) = caplog.records
    assert record.getMessage().startswith(f"pass '{name}' is left out of @main: ")


def test_a_request_that_is_wrong_keeps_its_type(folder):
    Path("sound3.py").write_text(PASS.format(rewrite="return match.root"))
    with pytest.raises(UsageError, match="no op that computes is there"):
        mlirfuse.compile("model.mlir", load_pass="sound3:PASS", must_fuse=[["a:1:1", "b:2:2"]])
