"""`mlirfuse-bisect` names exactly the rewrite with the planted mistake, and outlines it."""

import math
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from helpers import planted
from mlirfuse import targets
from mlirfuse.backend.compiler import Compiler
from mlirfuse.compilation import open_model
from mlirfuse.core import CompileFailedError, MlirfuseError
from mlirfuse.debug import oracle, race
from mlirfuse.debug.bisect import Bisect
from mlirfuse.debug.oracle import Failure
from mlirfuse.options import FusionOptions
from mlirfuse.runtime import isolated
from mlirfuse.tools.bisect import main as bisect_main

STAGES = 4

TOOLS = Path(sys.executable).parent


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLIRFUSE_FLAGS", raising=False)
    Path("model.mlir").write_text(planted.model(STAGES))


def lines_of(stage, model=None):
    """Lines of the model that define the stage's values, counted from 1."""
    lines = (model or planted.model(STAGES)).splitlines()
    return {n for n, text in enumerate(lines, 1) if re.search(rf"%[sxy]{stage} = ", text)}


def places(output):
    return {int(n) for n in re.findall(r"^  model\.mlir:(\d+):\d+: \w", output, re.MULTILINE)}


def search(failure, *, model=None, stages=STAGES, **settings):
    """Bisects; returns the culprits' lines, the finding and the search."""
    options = FusionOptions(**settings.pop("options", {}))
    text = model or planted.model(stages)
    with open_model(text, target="cpu", options=options) as work:
        made = Bisect(work, failure, **settings)
        found = made.find()
    lines = [{int(p.split(":")[1]) for p in c.decision.ops} for c in found.culprits]
    return lines, found, made


@pytest.mark.parametrize(
    ("mistake", "kind"),
    [
        (planted.dropped_mask, "numbers"),
        (planted.uncompilable, "compile"),
    ],
)
def test_exactly_the_planted_rewrite_is_named(monkeypatch, capsys, mistake, kind):
    planted.plant(monkeypatch, mistake, 2)
    assert bisect_main(["model.mlir", f"--failure={kind}", "-o", "found"]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""  # no progress where it is not a terminal
    (match,) = re.findall(r"^match:  (\d+) in main$", shown.out, re.MULTILINE)
    assert re.findall(r"^pass:   (.*)$", shown.out, re.MULTILINE) == [planted.GROUPS]
    assert places(shown.out) == lines_of(2)
    assert f" --disable-pass={planted.GROUPS}@match={match}\n" in shown.out
    assert "repro:  found/reproduce.sh (this match alone)\n" in shown.out
    assert (Path("found", "before.mlir").read_text()).count("linalg.generic") == 2
    compiles = int(re.search(r"4 rewrites, (\d+) programs compiled$", shown.out)[1])
    assert compiles <= 3 + math.ceil(math.log2(STAGES))


def test_a_slice_that_is_off_by_one_is_found_by_its_pass_first(monkeypatch):
    planted.plant_slices(monkeypatch, 1)
    model = planted.model(3, sliced=True)
    switches = {"pipeline": f"slice_rewrite,{planted.GROUPS}"}
    lines, found, _ = search(Failure(kind="numbers"), model=model, options=switches)
    (culprit,) = found.culprits
    assert culprit.decision.pass_name == "slice_rewrite"
    assert lines[0] <= lines_of(1, model)
    assert found.rewrites == 6
    assert found.compiles <= 3 + 1 + 2
    with open_model(model, target="cpu", options=FusionOptions(**switches)) as work:
        reproducer = Bisect(work, Failure(kind="numbers")).reduce(culprit)
    assert reproducer.alone


def test_two_mistakes_are_both_found(monkeypatch):
    planted.plant(monkeypatch, planted.uncompilable, 0, 2)
    lines, found, _ = search(Failure(kind="compile"))
    assert sorted(map(min, lines)) == [min(lines_of(0)), min(lines_of(2))]
    assert found.switch.count("@match=") == 2


def test_a_compiler_that_dies_is_found_by_a_crash(monkeypatch):
    planted.plant(monkeypatch, planted.uncompilable, 1)
    generate = Compiler.generate

    def die(self, source, output, **rest):
        try:
            return generate(self, source, output, **rest)
        except CompileFailedError as error:
            raise CompileFailedError("it died", stage="codegen", returncode=-6) from error

    monkeypatch.setattr(Compiler, "generate", die)
    lines, found, _ = search(Failure(kind="crash"), stages=3)
    assert lines == [lines_of(1, planted.model(3))]
    assert found.culprits[0].message == "it died"


CHECK = """
import sys
import numpy as np
import mlirfuse
program = mlirfuse.load(sys.argv[1])
ones = [np.ones(s.shape, bool if s.dtype == "i1" else np.float32) for s in program.inputs]
sys.exit(any((y != y.shape[1]).any() for y in program(*ones)))
"""


def test_a_command_decides(monkeypatch):
    planted.plant(monkeypatch, planted.wrong_constant, 2)
    Path("check.py").write_text(CHECK)
    command = f"{sys.executable} check.py %s"
    lines, _, _ = search(Failure(kind="command", command=command), stages=3)
    assert lines == [lines_of(2, planted.model(3))]


def test_an_interrupted_search_goes_on(monkeypatch, tmp_path):
    planted.plant(monkeypatch, planted.uncompilable, 1)
    failure, state = Failure(kind="compile"), tmp_path / "state.json"
    logged = []

    def interrupt(text):
        logged.append(text)
        if len(logged) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search(failure, state=state, log=interrupt)
    half = state.read_text()
    lines, found, made = search(failure, state=state)
    assert made.known == 3
    assert found.compiles + 3 <= 3 + math.ceil(math.log2(STAGES))
    assert lines == [lines_of(1)]

    def known(failure, **switches):
        options = FusionOptions(**switches)
        with open_model(planted.model(STAGES), target="cpu", options=options) as work:
            return Bisect(work, failure, state=state).known

    state.write_text(half)
    assert known(failure) == 3
    assert known(Failure(kind="crash")) == 0
    assert known(failure, disable_pass=("softmax_fusion",)) == 0
    state.write_text(half[:-20])
    assert known(failure) == 0


def test_several_programs_at_once_find_the_same(monkeypatch):
    planted.plant(monkeypatch, planted.uncompilable, 2)
    assert search(Failure(kind="compile"), jobs=2)[0] == [lines_of(2)]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("constant", "numbers"),
        ("uncompilable", "compile"),
        pytest.param("slow", "slower", marks=pytest.mark.slow),
    ],
)
def test_the_script_shows_the_failure_with_the_tools_alone(name, kind):
    Path("model.mlir").write_text(planted.model(2))
    environment = {
        **os.environ,
        "PYTHONPATH": os.fspath(Path(planted.__file__).parent),
        "PATH": f"{TOOLS}{os.pathsep}{os.environ['PATH']}",
    }
    attribute = {"constant": "WRONG_CONSTANT"}.get(name, name.upper())
    words = [f"--load-pass=planted:{attribute}", f"--pipeline=planted_{name}_fusion"]
    # Thousands of tanhs are far slower than the noise of a busy machine.
    factor = ["--factor=3"] if kind == "slower" else []

    def run(*command):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr[:2000]

    failure = [f"--failure={kind}", *factor]
    code, output = run("mlirfuse-bisect", "model.mlir", *failure, "-o", "found", *words)
    assert code == 0, output
    assert places(output) == lines_of(1, planted.model(2))
    code, output = run("found/reproduce.sh")
    assert code == 0, output
    if kind == "slower":  # nor is the sound one faster than a busy machine allows to say
        return
    script = Path("found/reproduce.sh")
    script.write_text(script.read_text().replace(words[0], "").replace("planted_", "reduction_"))
    script.write_text(script.read_text().replace(f"reduction_{name}_fusion", planted.GROUPS))
    code, output = run("found/reproduce.sh")
    assert code == 1, output


def test_a_short_program_is_called_more_often(monkeypatch):
    calls = []
    seconds = {"long": 1.0, "short": 1e-3, "none": 0.0}

    def call(program, inputs, *, repeat, **_):
        calls.append(repeat)
        return isolated.Called([], [seconds[program]] * repeat)

    monkeypatch.setattr(isolated, "call", call)
    compiler = Compiler(targets.parse("cpu"), FusionOptions())

    def repeats(*programs):
        calls.clear()
        assert race.race(programs, [], None, compiler) == [seconds[p] for p in programs]
        return calls[::2]

    assert repeats("short", "long") == [race.MIN_CALLS] * race.ROUNDS
    enough = round(race.MIN_SECONDS / 1e-3)
    assert repeats("short", "none") == [race.MIN_CALLS, enough, enough]
    assert repeats("none", "none") == [race.MIN_CALLS, *[race.MAX_CALLS] * 2]


@pytest.mark.parametrize(
    ("races", "bad"),
    [
        ([(3.0, 1.0), (3.1, 1.0)], True),
        ([(1.0, 1.0), (1.0, 1.1)], False),
        ([(1.3, 1.0), (1.0, 1.0), (1.4, 1.0)], False),
        ([(1.3, 1.3), (1.3, 1.0), (1.4, 1.1)], True),
    ],
)
def test_noise_in_one_race_makes_no_culprit(monkeypatch, races, bad):
    monkeypatch.setattr(oracle, "race", lambda *_: races.pop(0))
    with open_model(planted.model(1), target="cpu", options=FusionOptions()) as work:
        made = Bisect(work, Failure(kind="slower"))
        grouped = made._grouped(0, ())
        verdict = made.oracle.verdict(made.subject, grouped.path, hinted=grouped.hinted)
    assert verdict.bad is bad
    assert not races


def test_a_model_that_does_not_fail_is_an_error():
    with pytest.raises(MlirfuseError, match="the model does not fail with its 2 rewrites"):
        search(Failure(kind="compile"), stages=2)


def test_a_failure_without_rewrites_is_an_error():
    command = f"{sys.executable} -c raise(SystemExit(1)) %s"
    with pytest.raises(MlirfuseError, match="fails without any rewrite: no pass of ours is at f"):
        search(Failure(kind="command", command=command), stages=2)


def test_a_program_that_fails_in_another_way_ends_the_search(monkeypatch):
    planted.plant(monkeypatch, planted.uncompilable, 1)
    with pytest.raises(MlirfuseError, match=r"math.erf.*; --failure=compile finds the rewrite"):
        search(Failure(kind="numbers"), stages=2)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "MODEL is missing"),
        (["model.mlir"], "give --failure=compile|crash|numbers|slower or --command"),
        (["model.mlir", "--failure=wrong"], "argument --failure: invalid choice: 'wrong'"),
        (["model.mlir", "--failure=compile", "--command=x %s"], "one of them"),
        (["model.mlir", "--command=check"], "--command takes words with %s for the program"),
        (["model.mlir", "--failure=slower", "--jobs=2"], "--failure=slower takes --jobs=1"),
        (["model.mlir", "--failure=crash", "--jobs=0"], "--jobs takes a number from 1, not 0"),
        (["model.mlir", "--failure=crash", "--factor=2"], "--factor belongs to --failure=slower"),
        (["model.mlir", "--failure=slower", "--factor=-1"], "--factor takes a number from 0"),
        (["absent.mlir", "--failure=crash"], "cannot read absent.mlir: No such file"),
    ],
)
def test_wrong_usage_is_one_line(argv, message, capsys):
    assert bisect_main(argv) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("mlirfuse-bisect: error: ")
    assert message in line


def test_inputs_are_read_as_by_mlirfuse_run(monkeypatch, capsys):
    planted.plant(monkeypatch, planted.wrong_constant, 0)
    Path("model.mlir").write_text(planted.model(1))
    words = ["--input=8x16xf32=0", "--input=8x16xi1=1", "--failure=numbers"]
    assert bisect_main(["model.mlir", *words]) == 1
    assert "the model does not fail with its 1 rewrites" in capsys.readouterr().err
    np.save("x.npy", np.ones((8, 16), np.float32))
    words[0] = "--input=@x.npy"
    assert bisect_main(["model.mlir", *words]) == 0
