"""No command line overwrites a file that it reads."""

import os
from pathlib import Path

import numpy as np
import pytest

from helpers import planted
from mlirfuse.tools import bisect, opt, profile, run, tune
from mlirfuse.tools import compile as compiling


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLIRFUSE_CACHE_DIR", "off")
    for name in ("m.mlir", "pass.pdl.mlir", "m.json", "m.dot", "found/before.mlir"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(planted.model(1))
    Path("dumps").mkdir()
    Path("dumps/000_softmax_fusion_before.mlir").write_text(planted.model(1))
    os.link("m.mlir", "hard.vmfb")
    os.symlink("m.mlir", "soft.vmfb")
    for name in ("x.npy", "y.npy"):
        np.save(name, np.zeros(2, np.float32))
    Path("p.vmfb").write_bytes(b"a program")
    Path("w.npy").write_bytes(b"weights")


COMPILE = ["m.mlir", "-o", "out.vmfb"]

CASES = [
    (compiling, ["m.mlir", "-o", "m.mlir"], "--output=m.mlir would overwrite the input m.mlir"),
    (compiling, ["m.mlir", "-o", "./m.mlir"], "--output=./m.mlir would overwrite"),
    (compiling, ["m.mlir", "-o", "hard.vmfb"], "--output=hard.vmfb would overwrite"),
    (compiling, ["m.mlir", "-o", "soft.vmfb"], "--output=soft.vmfb would overwrite"),
    (compiling, [*COMPILE, "--report=m.mlir"], "--report=m.mlir would overwrite"),
    (compiling, [*COMPILE, "--decisions=m.mlir"], "--decisions=m.mlir would overwrite"),
    (compiling, ["m.dot", "-o", "out.vmfb", "--graph=m.dot"], "--graph=m.dot would overwrite"),
    (
        compiling,
        ["dumps/000_softmax_fusion_before.mlir", "-o", "out.vmfb", "--dump-ir-dir=dumps"],
        "--dump-ir-dir=dumps may overwrite the input dumps/000_softmax_fusion_before.mlir",
    ),
    (opt, ["m.mlir", "-o", "m.mlir"], "--output=m.mlir would overwrite"),
    (opt, ["m.json", "--graph=m.json"], "--graph=m.json would overwrite"),
    (tune, ["m.mlir", "-o", "m.mlir"], "--output=m.mlir would overwrite"),
    (tune, ["--measured=m.json", "--table=m.json"], "--table=m.json would overwrite"),
    (
        bisect,
        ["found/before.mlir", "--failure=compile", "-o", "found"],
        "--output=found/before.mlir would overwrite",
    ),
    (run, ["p.vmfb", "--input=@x.npy", "--output=@x.npy"], "--output=x.npy would overwrite"),
    (run, ["p.vmfb", "--expected=y.npy", "--output=y.npy"], "--output=y.npy would overwrite"),
    (run, ["p.vmfb", "--parameters=a=w.npy", "--output=w.npy"], "--output=w.npy would overwrite"),
    (profile, ["m.mlir", "--json=m.mlir"], "--json=m.mlir would overwrite"),
    (profile, ["m.mlir", "--input=@x.npy", "--trace=x.npy"], "--trace=x.npy would overwrite"),
    (
        profile,
        ["found/before.mlir", "--dump-kernels=found"],
        "--dump-kernels=found may overwrite the input found/before.mlir",
    ),
]


@pytest.mark.parametrize(("tool", "words", "message"), CASES)
def test_an_output_that_is_an_input_is_refused(capsys, tool, words, message):
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    assert tool.main(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == before


def test_an_output_may_replace_another_file(capsys):
    """Its own former output, or a file with the content of the input."""
    Path("copy.mlir").write_bytes(Path("m.mlir").read_bytes())
    assert opt.main(["m.mlir", "-o", "copy.mlir"]) == 0
    assert Path("copy.mlir").read_bytes() != Path("m.mlir").read_bytes()
