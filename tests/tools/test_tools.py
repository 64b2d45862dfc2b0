"""The command lines: arguments, exit codes, one-line errors, whole outputs or none."""

import dataclasses
import io
import json
import os
import re
import shlex
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from helpers.browser import page_data
from mlirfuse.core import MlirfuseError, Numerics, UsageError
from mlirfuse.options import switches
from mlirfuse.patterns import PASSES
from mlirfuse.runtime import inputs
from mlirfuse.tools import files, sections, values
from mlirfuse.tools.compile import main as compile_main
from mlirfuse.tools.diagnostics import Diagnostic, guard
from mlirfuse.tools.opt import main as opt
from mlirfuse.tools.run import main as run_main

RMS = """\
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
util.func public @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %n = arith.constant 8.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %e1 = tensor.empty() : tensor<4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e1 : tensor<4xf32>) -> tensor<4xf32>
  %sum = linalg.generic {
      indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<4x8xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %sq = arith.mulf %a, %a : f32
    %s = arith.addf %acc, %sq : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  %e = tensor.empty() : tensor<4x8xf32>
  %y = linalg.generic {
      indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x, %sum : tensor<4x8xf32>, tensor<4xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %s: f32, %o: f32):
    %m = arith.divf %s, %n : f32
    %me = arith.addf %m, %eps : f32
    %r = math.rsqrt %me : f32
    %p = arith.mulf %a, %r : f32
    linalg.yield %p : f32
  } -> tensor<4x8xf32>
  util.return %y : tensor<4x8xf32>
}
"""


NORM = "--pipeline=rms_norm_fusion"
OPT = [sys.executable, "-c", "from mlirfuse.tools.opt import main; raise SystemExit(main())"]


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLIRFUSE_FLAGS", raising=False)
    monkeypatch.delenv("MLIRFUSE_CONFIG", raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    Path("rms.mlir").write_text(RMS)
    return tmp_path


def one_error(capsys):
    """The only line on stderr; nothing may be on stdout."""
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Traceback" not in captured.err
    lines = captured.err.splitlines()
    assert len(lines) == 1
    return lines[0]


# The output of mlirfuse-opt.


def test_ir_goes_to_stdout_and_explanations_to_stderr(capsys):
    assert opt(["rms.mlir", "--explain", "--candidates", "-v", "--timing"]) == 0
    captured = capsys.readouterr()
    assert 'mlirfuse.pass = "rms_norm_fusion"' in captured.out
    assert captured.out.startswith("#map")
    assert "rms_norm_fusion match 0" in captured.err
    assert re.search(r"^rms_norm_fusion: 1 rewrite, \d", captured.err, re.M)
    assert re.search(r"^ +\d+\.\d+ +100\.0%  total$", captured.err, re.M)


def test_a_disabled_pass_is_logged_as_such_and_leaves_the_ir(capsys):
    assert opt(["rms.mlir", NORM, "--disable-pass=rms_norm_fusion", "-v"]) == 0
    captured = capsys.readouterr()
    assert "flow.dispatch.region" not in captured.out
    assert "rms_norm_fusion: disabled" in captured.err.splitlines()


def test_json_takes_stdout_and_ir_needs_an_output_file(capsys):
    assert opt(["rms.mlir", "--explain=json", "-o", "out.mlir"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["schema"] == 1
    assert report["options"]["pipeline"] == "default"
    assert "flow.dispatch.region" in Path("out.mlir").read_text()
    assert opt(["rms.mlir", NORM, "--candidates=json"]) == 0
    decisions = json.loads(capsys.readouterr().out)
    taken = [d for d in decisions if d["taken"]]
    assert [d["pass"] for d in taken] == ["rms_norm_fusion"]
    assert any(place.startswith("rms.mlir:9:") for place in taken[0]["ops"])


def test_why(capsys):
    assert opt(["rms.mlir", NORM, "--why=rms.mlir:9,rms.mlir:18", "-o", "/dev/null"]) == 0
    assert capsys.readouterr().err.startswith("yes: rms_norm_fusion match 0")


def test_locations_of_split_text_carry_the_file_and_its_lines(capsys):
    Path("two.mlir").write_text(f"// -----\n{RMS}")
    assert opt(["two.mlir", "--split-input-file", "--candidates=json"]) == 0
    decisions = json.loads(capsys.readouterr().out)
    assert any(place.startswith("two.mlir:10:") for d in decisions for place in d["ops"])


def test_stdin_and_bytecode(capsysbinary, monkeypatch):
    assert opt(["rms.mlir", "--emit-bytecode", "-o", "rms.mlirbc", "--pipeline=none"]) == 0
    assert Path("rms.mlirbc").read_bytes().startswith(b"ML\xefR")
    assert opt(["rms.mlirbc"]) == 0
    from_bytecode = capsysbinary.readouterr().out
    assert b"flow.dispatch.region" in from_bytecode
    with Path("rms.mlir").open() as text:
        monkeypatch.setattr("sys.stdin", text)
        assert opt(["-"]) == 0
    assert capsysbinary.readouterr().out == from_bytecode
    with Path("rms.mlirbc").open(encoding="latin-1") as text:
        monkeypatch.setattr("sys.stdin", text)
        assert opt(["-"]) == 0
    assert capsysbinary.readouterr().out == from_bytecode


def test_stdin_is_the_default_unless_it_is_a_terminal(capsys, monkeypatch):
    assert opt(["rms.mlir"]) == 0
    named = capsys.readouterr().out
    with Path("rms.mlir").open() as text:
        monkeypatch.setattr("sys.stdin", text)
        assert opt([]) == 0
        assert capsys.readouterr().out == named
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr("sys.stdin", terminal)
    assert opt([]) == 2
    assert "IN.mlir is missing; see mlirfuse-opt --help" in one_error(capsys)


PIPELINE = "builtin.module(func.func(cse,rms_norm_fusion),util.func(canonicalize))"


def test_a_pipeline_in_the_spelling_of_mlir_opt(capsys):
    assert opt(["rms.mlir", f"--pass-pipeline={PIPELINE}", "-v", "--mlir-timing"]) == 0
    captured = capsys.readouterr()
    assert 'mlirfuse.pass = "rms_norm_fusion"' in captured.out
    parts = re.findall(r"\d%  (\S+)$", captured.err, re.M)
    assert parts == [
        *("parse", "func.func(cse)", "rms_norm_fusion", "util.func(canonicalize)"),
        *("write", "total"),
    ]


def printed(err):
    return re.findall(r"^// -----// IR Dump (\w+ \S+) //----- //$", err, re.M)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            ["--mlir-print-ir-after-all"],
            ["After cse", "After rms_norm_fusion", "After canonicalize"],
        ),
        (["--mlir-print-ir-before=canonicalize,cse"], ["Before cse", "Before canonicalize"]),
        (
            ["--mlir-print-ir-before-all", "--mlir-print-ir-after=rms-norm-fusion"],
            [
                "Before cse",
                "Before rms_norm_fusion",
                "After rms_norm_fusion",
                "Before canonicalize",
            ],
        ),
        (
            ["--mlir-print-ir-after-all", "--disable-pass=rms_norm_fusion"],
            ["After cse", "After canonicalize"],
        ),
        ([], []),
    ],
)
def test_ir_around_passes_is_printed(words, expected, capsys):
    assert opt(["rms.mlir", f"--pass-pipeline={PIPELINE}", *words]) == 0
    captured = capsys.readouterr()
    assert printed(captured.err) == expected
    assert "IR Dump" not in captured.out
    if "After rms_norm_fusion" in expected:
        before, _, after = captured.err.partition("After rms_norm_fusion //")
        assert "flow.dispatch.region" in after
        assert "flow.dispatch.region" not in before


def test_passes_whose_ir_is_printed_run_on_all_layers(monkeypatch):
    def fails(*_):
        pytest.fail("a run on representatives prints nothing")

    monkeypatch.setattr("mlirfuse.pipelines.engine.run_on_representatives", fails)
    assert opt(["rms.mlir", "--mlir-print-ir-after=rms_norm_fusion"]) == 0


def test_locations_are_printed_on_request(capsys):
    assert opt(["rms.mlir", "--pipeline=none", "--mlir-print-debuginfo"]) == 0
    assert 'loc("rms.mlir":' in capsys.readouterr().out


def test_dumps_are_numbered_and_named_for_the_pass(tmp_path):
    assert opt(["rms.mlir", NORM, "--dump-ir-dir=deep/dumps", "-o", "/dev/null"]) == 0
    names = sorted(path.name for path in (tmp_path / "deep/dumps").iterdir())
    assert names == ["000_rms_norm_fusion_after.mlir", "000_rms_norm_fusion_before.mlir"]
    before = (tmp_path / "deep/dumps" / names[1]).read_text()
    assert "flow.dispatch.region" not in before


def test_print_options_says_where_values_came_from(capsys, monkeypatch):
    monkeypatch.setenv("MLIRFUSE_FLAGS", "--disable_pass=rms_norm_fusion")
    assert opt(["--print-options", "--fusion-limit=3"]) == 0
    text = capsys.readouterr().out
    assert re.search(r'^disable_pass = \["rms_norm_fusion"\] +# MLIRFUSE_FLAGS$', text, re.M)
    assert re.search(r"^fusion_limit = 3 +# command line$", text, re.M)


def test_switch_names_are_matched_loosely_and_a_bare_one_takes_no_argument(capsys):
    assert opt(["--Disable_Pass=RMS-norm-fusion", NORM, "--single-op-groups", "rms.mlir"]) == 0
    assert "flow.dispatch.region" not in capsys.readouterr().out


def test_long_switches_may_have_one_dash(capsys):
    """LLVM's tools take both."""
    assert opt(["-pass-pipeline=builtin.module(cse)", "rms.mlir", "-mlir-timing", "-o", "-"]) == 0
    captured = capsys.readouterr()
    assert "util.func" in captured.out
    assert "  cse\n" in captured.err


def test_numerics_bounds_the_class_of_passes(capsys, monkeypatch):
    name = "rms_norm_fusion"
    for kind, limit, fused in (
        (Numerics.REASSOCIATING, "exact", False),
        (Numerics.REASSOCIATING, "reassociating", True),
        (Numerics.PRECISION_CHANGING, "reassociating", False),
        (Numerics.PRECISION_CHANGING, "any", True),
    ):
        monkeypatch.setitem(PASSES, name, dataclasses.replace(PASSES[name], numerics=kind))
        assert opt(["rms.mlir", NORM, f"--numerics={limit}", "--explain"]) == 0
        captured = capsys.readouterr()
        assert ("flow.dispatch.region" in captured.out) is fused
        assert ("numerics_limit (1)" in captured.err) is not fused


# The table of passes.


def test_list_passes_as_text_and_json(capsys):
    assert opt(["--list-passes"]) == 0
    text = capsys.readouterr().out
    assert opt(["--list-passes=json"]) == 0
    entries = json.loads(capsys.readouterr().out)
    assert [entry["name"] for entry in entries] == list(PASSES)
    keys = {"name", "aliases", "summary", "numerics", "targets", "default", "options"}
    for entry in entries:
        assert set(entry) == keys
        assert re.search(rf"^{entry['name']} ", text, re.M)
        assert entry["summary"] in text


def test_list_passes_imports_no_framework():
    forbidden = ("torch", "jax", "onnx", "triton", "iree.runtime", "transformers")
    code = (
        "import sys; from mlirfuse.tools.opt import main; main(['--list-passes']);"
        f"print(*[m for m in {forbidden!r} if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == ""


# Help.


@pytest.mark.parametrize(
    "tool", ["opt", "compile", "run", "bench", "bisect", "tune", "profile", "plan"]
)
def test_help_is_grouped_shows_an_example_and_fits(tool, capsys):
    main = __import__(f"mlirfuse.tools.{tool}", fromlist=["main"]).main
    with pytest.raises(SystemExit) as stopped:
        main(["--help"])
    assert stopped.value.code == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 100
    assert text.startswith(f"usage: mlirfuse-{tool} ")
    assert "\nexamples:\n  mlirfuse-" in text
    assert "exit codes: 0 done" in text
    assert text.count("\n\n") >= 4


@pytest.mark.parametrize("tool", ["opt", "compile", "bench", "bisect", "profile"])
def test_help_shows_the_text_and_the_example_of_every_switch(tool, capsys):
    main = __import__(f"mlirfuse.tools.{tool}", fromlist=["main"]).main
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = "".join(capsys.readouterr().out.split())
    for switch in switches():
        text = f"{switch.plain_summary} (e.g. {switch.example})"
        assert f"{switch.flag}[=off]" in shown or f"{switch.flag}={switch.metavar}" in shown
        assert "".join(text.split()) in shown


@pytest.mark.parametrize("tool", ["opt", "compile", "run", "bench", "profile", "plan"])
def test_version(tool, capsys):
    main = __import__(f"mlirfuse.tools.{tool}", fromlist=["main"]).main
    with pytest.raises(SystemExit) as stopped:
        main(["--version"])
    assert stopped.value.code == 0
    assert re.fullmatch(rf"mlirfuse-{tool} \S+ \(IREE 3\.13\.\S+\)\n", capsys.readouterr().out)


# Wrong usage: exit code 2, one line, no output file.


@pytest.mark.parametrize(
    ("argv", "fragment"),
    [
        (["absent.mlir"], "cannot read absent.mlir: No such file or directory"),
        (["."], "cannot read .: Is a directory"),
        (["rms.mlir", "--target=gpu"], "'gpu'"),
        (["rms.mlir", "--disable-pass=rms_norm"], "did you mean 'rms_norm_fusion'?"),
        (["rms.mlir", "--pipeline=rms_norm_fusion,nosuch"], "'nosuch'"),
        (["rms.mlir", "--pipeline=a{b"], "column 4: expected"),
        (["rms.mlir", "--disable-passes=x"], "did you mean '--disable-pass'?"),
        (["rms.mlir", "--cse"], "it is a pass; give --pipeline=cse"),
        (["rms.mlir", "--rms-norm-fusion"], "it is a pass; give --pipeline=rms-norm-fusion"),
        (["rms.mlir", "--kernels=json"], "compiles no program; mlirfuse-compile has --kernels"),
        (["rms.mlir", "--report=a.html"], "mlirfuse-compile has --report"),
        (["rms.mlir", "--explain=xml"], "invalid choice: 'xml'"),
        (["rms.mlir", "--explain=json", "--candidates=json"], "both want stdout"),
        (["rms.mlir", "--why=rms.mlir:9"], "--why takes two places"),
        (["rms.mlir", "--fusion-limit=-1"], "--fusion-limit: takes a number"),
        (["rms.mlir", "--mlir-print-ir-after=rms_norm"], "did you mean 'rms_norm_fusion'?"),
        (["rms.mlir", "--mlir-print-ir-before=cse"], "no pass 'cse' in the pipeline"),
        (["rms.mlir", "--pass-pipeline=builtin.module(cse"], "expected"),
        (["rms.mlir", "--must-fuse=a:1,b:2"], "--must-fuse names a:1, and no op"),
        (["rms.mlir", "--must-fuse=a:1,b:2", "--never-fuse=a:1"], "both name a:1"),
        (["rms.mlir", "--enable-feature=guards"], "unknown feature 'guards'; did you mean"),
        (["rms.mlir", "--dump-ir-dir=rms.mlir"], "cannot make the directory rms.mlir"),
        (["rms.mlir", "other.mlir"], "unrecognized arguments: other.mlir"),
        (["rms.mlir", "-o"], "expected one argument"),
    ],
)
def test_wrong_usage(argv, fragment, capsys):
    assert opt([*argv, "-o", "out.mlir"] if "-o" not in argv else argv) == 2
    line = one_error(capsys)
    assert line.startswith("mlirfuse-opt: error: ")
    assert fragment in line
    assert not Path("out.mlir").exists()


@pytest.mark.parametrize(
    ("output", "fragment"),
    [
        ("absent/out.mlir", "No such file or directory"),
        (".", "it is a directory"),
        ("rms.mlir/out.mlir", "Not a directory"),
    ],
)
def test_an_output_that_cannot_be_written_is_refused_first(output, fragment, capsys):
    assert opt(["rms.mlir", "-o", output]) == 2
    assert f"cannot write {output}: {fragment}" in one_error(capsys)


# Bad IR: exit code 1, file:line:col, no output file.


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("util.func @f() {\n  foo.bar\n}\n", ":2:3: error: Dialect `foo' not found"),
        (RMS[: len(RMS) // 2], ": error: "),
        ("hello", ":1:1: error: "),
        ("util.func @f(%x: i32) -> i32 {\n  util.return\n}\n", ":2:3: error: "),
    ],
)
def test_bad_text(text, fragment, capsys):
    Path("bad.mlir").write_text(text)
    Path("out.mlir").write_text("what was there")
    assert opt(["bad.mlir", "-o", "out.mlir"]) == 1
    line = one_error(capsys)
    assert re.match(r"bad\.mlir:\d+:\d+: error: ", line)
    assert fragment in line
    assert Path("out.mlir").read_text() == "what was there"
    assert sorted(p.name for p in Path().iterdir()) == ["bad.mlir", "out.mlir", "rms.mlir"]


def test_truncated_bytecode(capsys):
    assert opt(["rms.mlir", "--emit-bytecode", "-o", "rms.mlirbc"]) == 0
    whole = Path("rms.mlirbc").read_bytes()
    Path("half.mlirbc").write_bytes(whole[: len(whole) // 2])
    assert opt(["half.mlirbc"]) == 1
    assert one_error(capsys).startswith("half.mlirbc: error: ")


def test_bytes_that_are_no_text(capsys):
    Path("bad.mlir").write_bytes(b"\xff\xfe\x00")
    assert opt(["bad.mlir", "--split-input-file"]) == 2
    assert "neither MLIR text nor bytecode" in one_error(capsys)


def test_every_bad_section_is_reported_with_its_line_in_the_file(capsys):
    Path("bad.mlir").write_text(f"foo.a\n// -----\n{RMS}// -----\nfoo.b\n// -----\nfoo.c\n")
    assert opt(["bad.mlir", "--split-input-file", "-o", "out.mlir"]) == 1
    lines = capsys.readouterr().err.splitlines()
    second = RMS.count("\n") + 4
    assert [line.partition(" error:")[0] for line in lines] == [
        "bad.mlir:1:1:",
        f"bad.mlir:{second}:1:",
        f"bad.mlir:{second + 2}:1:",
    ]
    assert not Path("out.mlir").exists()


def test_a_traceback_needs_debug(capsys, monkeypatch):
    def breaks(*_, **__):
        raise ValueError("first line\nsecond line")

    monkeypatch.setattr("mlirfuse.pipelines.engine.run", breaks)
    assert opt(["rms.mlir"]) == 1
    assert one_error(capsys) == (
        "mlirfuse-opt: error: internal error: ValueError: first line; --debug shows where"
    )
    assert opt(["rms.mlir", "--debug"]) == 1
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("no place in it", "tool: error: no place in it"),
        ("two words.mlir:3:4: bad op", "two words.mlir:3:4: error: bad op"),
        ("m.mlir:3:4: error: bad op", "m.mlir:3:4: error: bad op"),
        (
            "m.mlir: iree-compile refused it: m.mlir:3:4: error: bad op",
            "m.mlir:3:4: error: bad op (iree-compile refused it)",
        ),
    ],
)
def test_the_location_comes_first(message, line, capsys):
    def fails(_):
        raise MlirfuseError(message)

    assert guard("tool", fails, []) == 1
    assert one_error(capsys) == line


# The process: signals, pipes.


def test_interrupt_gives_one_line(capsys, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("mlirfuse.pipelines.engine.run", interrupted)
    assert opt(["rms.mlir", "-o", "out.mlir"]) == 130
    assert one_error(capsys) == "mlirfuse-opt: interrupted"
    assert [p.name for p in Path().iterdir()] == ["rms.mlir"]


@pytest.mark.parametrize(("raised", "code"), [(KeyboardInterrupt(), 130), (SystemExit(143), 143)])
def test_a_signal_while_a_class_is_made(raised, code, capsys):
    class Field:
        def __set_name__(self, owner, name):
            raise raised

    def work(_):
        return type("Made", (), {"field": Field()})

    try:
        found = guard("tool", work, [])
    except SystemExit as ended:
        found = ended.code
    assert found == code
    assert "internal error" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("number", "code", "fragment"),
    [(signal.SIGINT, 130, "mlirfuse-opt: interrupted\n"), (signal.SIGTERM, 143, "")],
)
def test_signals_leave_no_temporary_file(number, code, fragment, tmp_path):
    # A shell starts background jobs, and tests among them, with SIGINT ignored.
    listens = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    running = subprocess.Popen(
        [*OPT[:2], listens + OPT[2], "-", "-o", "out.mlir"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    waited = time.monotonic() + 60  # the machine may be busy with other tests
    while not list(tmp_path.glob(".out*")) and time.monotonic() < waited:
        time.sleep(0.02)
    assert list(tmp_path.glob(".out*"))
    running.send_signal(number)
    with running:
        assert running.wait(timeout=60) == code
        err = running.stderr.read()
    assert err == fragment
    assert [p.name for p in tmp_path.iterdir()] == ["rms.mlir"]


@pytest.mark.parametrize(
    ("argv", "reader"),
    [
        (["many.mlir", "--split-input-file", "--pipeline=none"], "head -n 1"),
        (["--list-passes"], "true"),
        (["--help"], "true"),
    ],
)
def test_a_closed_stdout_is_no_error_message(argv, reader, tmp_path, monkeypatch):
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)  # a buffer is flushed again at exit
    Path("many.mlir").write_text("// -----\n".join([RMS] * 60))
    script = f"{shlex.join([*OPT, *argv])} | {reader}; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert (done.returncode, done.stderr) == (141, "")
    assert len(done.stdout.splitlines()) == ("head" in reader)


# Expected diagnostics.


def found(line, message="boom", severity="error"):
    return Diagnostic("f.mlir", line, 1, severity, message)


@pytest.mark.parametrize(
    ("comment", "line"),
    [
        ("// expected-error {{boom}}", 2),
        ("// expected-error@+2 {{boom}}", 4),
        ("// expected-error @-1 {{boom}}", 1),
        ("// expected-error @below {{boom}}", 3),
        ("// expected-error @above {{boom}}", 1),
        ("// expected-error @below {{boom}} expected-error @unknown {{boom}}", 3),
        ("// expected-error-re @above {{b(o+)m$}}", 1),
        ("// expected-error @above 2 {{boom}}", 1),
    ],
)
def test_expectations_speak_of_a_line(comment, line):
    expected = sections.expectations(f"one\n{comment}\nthree\nfour", "f.mlir")
    several = [found(line)] * len(expected)
    assert sections.mismatches(expected, several, "f.mlir") == []
    assert sections.mismatches(expected, several[1:], "f.mlir")
    assert sections.mismatches(expected, [*several, found(line)], "f.mlir")
    elsewhere = [found(line + 1)] * len(expected)
    assert len(sections.mismatches(expected, elsewhere, "f.mlir")) >= 1


def test_above_and_below_skip_lines_of_expectations():
    text = "code\n// expected-error @above {{a}}\n// expected-warning @above {{b}}\nmore"
    lines = [e.line for e in sections.expectations(text, "f.mlir")]
    assert lines == [1, 1]


def test_severity_counts_and_notes_are_free():
    expected = sections.expectations("// expected-warning {{boom}}", "f.mlir")
    wrong = sections.mismatches(expected, [found(1), found(1, severity="note")], "f.mlir")
    assert [str(d) for d in wrong] == [
        "f.mlir:1:1: error: unexpected error: boom",
        "f.mlir:1:1: error: expected warning did not come: boom",
    ]


@pytest.mark.parametrize(
    ("comment", "fragment"),
    [
        ("// expected-error @+1 boom", "f.mlir:2: not an expectation"),
        ("// expected-error-re {{b(oom}}", "f.mlir:2: bad pattern"),
    ],
)
def test_a_malformed_expectation_is_an_error(comment, fragment):
    with pytest.raises(UsageError, match=re.escape(fragment)):
        sections.expectations(f"\n{comment}", "f.mlir")


# Documents.


@pytest.mark.parametrize("tool", ["opt", "compile", "run", "plan"])
def test_the_documents_name_every_argument(tool):
    parser = __import__(f"mlirfuse.tools.{tool}", fromlist=["parser"]).parser()
    docs = Path(__file__).parents[2] / "docs"
    text = (docs / f"mlirfuse-{tool}.md").read_text() + (docs / "options.md").read_text()
    for action in parser._actions:
        for name in action.option_strings:
            assert re.search(rf"`{re.escape(name)}(?![\w-])", text), name


# Output files.


def test_an_output_keeps_its_mode_and_link_and_a_new_one_follows_the_umask(tmp_path):
    target = tmp_path / "target"
    target.write_bytes(b"old")
    target.chmod(0o640)
    link = tmp_path / "link"
    link.symlink_to(target)
    with files.output(str(link)) as out:
        out.write(b"new")
        assert target.read_bytes() == b"old"
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    mask = os.umask(0o027)
    try:
        with files.output(str(tmp_path / "fresh")) as out:
            out.write(b"x")
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "fresh").stat().st_mode) == 0o640


# mlirfuse-compile and mlirfuse-run.


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """`rms.vmfb` of `RMS`, and the other files that mlirfuse-compile wrote."""
    folder = tmp_path_factory.mktemp("program")
    (folder / "rms.mlir").write_text(RMS)
    names = {suffix: f"{folder}/rms.{suffix}" for suffix in ("vmfb", "html", "json", "dot", "mlir")}
    files = [f"--report={names['html']}", f"--decisions={names['json']}", f"--graph={names['dot']}"]
    assert compile_main([names["mlir"], "-o", names["vmfb"], *files, "--no-cache"]) == 0
    return folder / "rms.vmfb"


def test_compile_writes_program_page_graph_and_decisions(program):
    decisions = json.loads(program.with_suffix(".json").read_text())
    assert decisions["schema"] == 1
    assert decisions["dispatches"]["fused"] == 1
    assert decisions["savings"]["times"] == "rank"
    assert decisions["savings"]["model_error"]["median"] > 0.3
    assert [d["pass"] for d in decisions["decisions"] if d["taken"]] == ["rms_norm_fusion"]
    found = page_data(program.with_suffix(".html"))
    (kernel,) = decisions["kernels"]
    assert [k["name"] for k in found["kernels"]] == [kernel["name"]]
    assert "flow.dispatch.region" not in found["before"]
    assert "flow.dispatch.region" in found["after"]
    assert "rms_norm_fusion" in [step["title"] for step in found["steps"]]
    assert f'label="#0 {kernel["name"]}' in program.with_suffix(".dot").read_text()
    assert len(list(program.parent.iterdir())) == 5


def test_compile_dumps_the_ir_around_each_pass_also_on_a_cache_hit(monkeypatch, tmp_path):
    monkeypatch.setenv("MLIRFUSE_CACHE_DIR", str(tmp_path / "cache"))
    for folder in ("first", "again"):
        argv = ["rms.mlir", "-o", "rms.vmfb", NORM, f"--dump-ir-dir={tmp_path / folder}"]
        assert compile_main(argv) == 0
        written = sorted(path.name for path in (tmp_path / folder).iterdir())
        names = [f"000_rms_norm_fusion_{moment}.mlir" for moment in ("after", "before")]
        assert written == names
        after, before = ((tmp_path / folder / name).read_text() for name in names)
        assert "flow.dispatch.region" in after
        assert "flow.dispatch.region" not in before


def test_compile_with_a_page_dumps_the_ir_too(monkeypatch, tmp_path):
    monkeypatch.setenv("MLIRFUSE_CACHE_DIR", str(tmp_path / "cache"))
    folder, page = tmp_path / "ir", tmp_path / "r.html"
    folder.mkdir()
    (folder / "000_old_before.mlir").write_text("of another run")
    argv = ["rms.mlir", "-o", "rms.vmfb", NORM, f"--dump-ir-dir={folder}", f"--report={page}"]
    assert compile_main(argv) == 0
    assert (folder / "000_rms_norm_fusion_after.mlir").exists()
    assert [step["title"] for step in page_data(page)["steps"]] == ["rms_norm_fusion"]


def test_compile_answers_like_opt_also_from_the_cache(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("MLIRFUSE_CACHE_DIR", str(tmp_path / "cache"))
    argv = ["rms.mlir", "-o", "rms.vmfb", "--target=vulkan", NORM, "-v"]
    assert compile_main([*argv, "--explain=json"]) == 0
    first = capsys.readouterr()
    assert re.search(r"^rms_norm_fusion: 1 rewrite, ", first.err, re.M)
    written = Path("rms.vmfb").read_bytes()
    assert compile_main([*argv, "--explain=json"]) == 0
    second = capsys.readouterr()
    assert json.loads(second.out)["decisions"] == json.loads(first.out)["decisions"]
    assert Path("rms.vmfb").read_bytes() == written
    assert compile_main([*argv, "--why=rms.mlir:9,rms.mlir:18"]) == 0
    told = capsys.readouterr().err
    assert "yes: kernel main_dispatch_0" in told
    assert "formed by rms_norm_fusion match 0" in told


def test_stock_runs_no_pass_and_the_cache_can_be_left_alone(capsys, monkeypatch):
    monkeypatch.setenv("MLIRFUSE_CACHE_DIR", "cache")
    assert compile_main(["rms.mlir", "-o", "rms.vmfb", "--stock", "--no-cache", "-v"]) == 0
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")
    assert sorted(p.name for p in Path().iterdir()) == ["rms.mlir", "rms.vmfb"]


@pytest.mark.parametrize(
    ("argv", "code", "fragment"),
    [
        ([], 2, "mlirfuse-compile: error: MODEL is missing"),
        (["rms.mlir"], 2, "-o OUT.vmfb is missing"),
        (["rms.mlir", "-o", "-"], 2, "does not go to stdout"),
        (["absent.onnx", "-o", "o.vmfb"], 2, "cannot read absent.onnx: No such file"),
        (["rms.mlir", "-o", "absent/o.vmfb"], 2, "cannot write absent/o.vmfb: No such file"),
        (["rms.mlir", "-o", "o.vmfb", "--report=absent/r.html"], 2, "cannot write absent/r.html"),
        (["rms.mlir", "-o", "o.vmfb", "--target=tpu"], 2, "unknown target 'tpu'"),
        (["rms.mlir", "-o", "o.vmfb", "--timeout=0"], 2, "--timeout takes seconds above 0"),
        (["rms.mlir", "-o", "o.vmfb", "--timeout=0.01"], 1, "ran out of time"),
        (["rms.mlir", "-o", "o.vmfb", "--verify", "--stock"], 2, "remove it or --verify"),
        (
            ["rms.mlir", "-o", "o.vmfb", "--dump-ir-dir=d", "--stock"],
            2,
            "remove it or --dump-ir-dir",
        ),
        (["rms.mlir", "-o", "o.vmfb", "--graph=o.png"], 2, "takes FILE.dot or FILE.json"),
        (["rms.mlir", "-o", "o.json", "--graph=./o.json"], 2, "have to name different files"),
        (
            ["rms.mlir", "-o", "o.vmfb", "--stock", "--enable-pass=rms_norm_fusion"],
            2,
            "--stock runs no pass of ours",
        ),
        (["rms.mlir", "-o", "o.vmfb", "--report=./o.vmfb"], 2, "have to name different files"),
        (
            ["bad.mlir", "-o", "o.vmfb"],
            1,
            "error: Dialect `foo' not found for custom op 'foo.bar'",
        ),
        (["bad.onnx", "-o", "o.vmfb"], 1, "bad.onnx: not a valid ONNX model"),
    ],
)
def test_compile_refuses_in_one_line_and_leaves_nothing(argv, code, fragment, capsys):
    Path("bad.mlir").write_text("func.func @f() { foo.bar }")
    Path("bad.onnx").write_text("junk")
    before = sorted(Path().iterdir())
    assert compile_main([*argv, "--no-cache"]) == code
    line = one_error(capsys)
    assert fragment in line
    assert line.startswith(("mlirfuse-compile: error: ", "bad.mlir:1:18: error: "))
    assert sorted(Path().iterdir()) == before


def test_a_terminal_shows_progress_and_a_pipe_does_not(capfd, monkeypatch):
    argv = ["rms.mlir", "-o", "rms.vmfb", "--timeout=0.01", "--no-cache"]
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert compile_main(argv) == 1
    assert "compiling rms.mlir for cpu" not in capfd.readouterr().err
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert compile_main(argv) == 1
    assert "compiling rms.mlir for cpu" in capfd.readouterr().err


def rms(x):
    return x / np.sqrt((x.astype(np.float64) ** 2).mean(-1, keepdims=True) + 1e-5)


def test_run_prints_saves_and_compares(program, capsys):
    x = np.linspace(-1, 2, 32, dtype=np.float32).reshape(4, 8)
    np.save("x.npy", x)
    np.save("y.npy", rms(x).astype(np.float32))
    argv = [str(program), "--input=@x.npy"]
    assert run_main([*argv, "--output=@got.npy", "--expected=y.npy"]) == 0
    assert capsys.readouterr().out == ""
    np.testing.assert_allclose(np.load("got.npy"), rms(x), rtol=1e-5)
    assert run_main([*argv, "-v"]) == 0
    captured = capsys.readouterr()
    np.testing.assert_array_equal(
        values.read(captured.out.removeprefix("result 0: ")), np.load("got.npy")
    )
    assert "4x8xf32" in captured.err
    assert run_main([*argv, "--expected=4x8xf32=0"]) == 1
    assert "result 0 differs: 32 of 32 elements" in one_error(capsys)


def test_run_with_random_input_follows_the_seed(program, capsys):
    printed = []
    for seed in (0, 0, 1):
        assert run_main([str(program), "--input=4x8xf32", f"--seed={seed}"]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1] != printed[2]


@pytest.mark.parametrize(
    ("argv", "code", "fragment"),
    [
        (["--input=4x9xf32"], 1, "is 4x9xf32; expected 4x8xf32"),
        (["--input=4x8xf64"], 1, "is 4x8xf64; expected 4x8xf32"),
        ([], 1, "expected 1 (4x8xf32)"),
        (["--input=4x8xf32", "--function=foo"], 2, "has no function 'foo' (known: main)"),
        (["--input=4x8xf32", "--device=abacus"], 1, "'abacus' is not available"),
        (["--input=4x8xf32", "--output=o.npy", "--output=p.npy"], 2, "--output is given 2 times"),
        (["--input=4x8xf32", "--output=o.txt"], 2, "--output takes @FILE.npy"),
        (["--input=4x8xf32", "--output=absent/o.npy"], 2, "cannot write absent/o.npy"),
        (["--input=4x8"], 2, "'4x8' is not a tensor"),
    ],
)
def test_run_refuses_in_one_line_and_leaves_nothing(program, argv, code, fragment, capsys):
    assert run_main([str(program), *argv]) == code
    assert fragment in one_error(capsys)
    assert [p.name for p in Path().iterdir()] == ["rms.mlir"]


def test_run_refuses_a_file_that_is_no_program(program, capsys):
    Path("half.vmfb").write_bytes(program.read_bytes()[:3000])
    for name, code, fragment in (
        ("rms.mlir", 1, "rms.mlir is no program"),
        ("half.vmfb", 1, "half.vmfb"),
        ("absent.vmfb", 2, "cannot read absent.vmfb"),
    ):
        assert run_main([name, "--input=4x8xf32"]) == code
        assert fragment in one_error(capsys)


# Tensors on the command line.


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2x3xf32=0", np.zeros((2, 3), np.float32)),
        ("4xi64=1,2,3,4", np.array([1, 2, 3, 4], np.int64)),
        ("2x2xf16=[1 2][3 4.5]", np.array([[1, 2], [3, 4.5]], np.float16)),
        ("i32=7", np.array(7, np.int32)),
        ("2xi1=1,false", np.array([True, False])),
        ("0x4xf32=1", np.zeros((0, 4), np.float32)),
        ("2xui8=255,0", np.array([255, 0], np.uint8)),
        ("2xf64=nan,-inf", np.array([np.nan, -np.inf])),
    ],
)
def test_values(text, expected):
    got = values.read(text)
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)
    again = values.read(values.show(got)) if got.size else got
    np.testing.assert_array_equal(again, expected)


def test_random_values_depend_on_the_seed_and_the_position_alone():
    first = values.read("2x3xf32", seed=1, index=0)
    assert first.shape == (2, 3)
    np.testing.assert_array_equal(first, values.read("2x3xf32", seed=1, index=0))
    assert (first != values.read("2x3xf32", seed=2, index=0)).any()
    assert (first != values.read("2x3xf32", seed=1, index=1)).any()
    whole = values.read("100xi64", seed=1)
    assert whole.min() >= 0
    assert whole.max() < inputs.RANDOM_INTEGERS


def test_values_from_files(tmp_path):
    array = np.arange(6, dtype=np.int32).reshape(2, 3)
    np.save(tmp_path / "a.npy", array)
    np.testing.assert_array_equal(values.read("@a.npy"), array)
    np.testing.assert_array_equal(values.read("a.npy"), array)


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("absent.npy", "cannot read absent.npy"),
        ("@rms.mlir", "not a numpy file"),
        ("@all.npz", "an archive of arrays"),
        ("2y3xf32", "'2y3xf32' is not a tensor"),
        ("2x3", "is not a tensor"),
        ("2xf33", "unknown element type 'f33'; did you mean 'f32'?"),
        ("2x3xf32=1,2", "has 2 values; accepted: 1, or 6"),
        ("2xi8=1,x", "has a value that is no i8"),
        ("2xui8=1,300", "has a value that is no ui8"),
        ("2xi1=1,2", "has a value that is no i1"),
        ("2xi32=1,2.5", "has a value that is no i32"),
        ("2xf32=", "has 0 values"),
    ],
)
def test_bad_values(text, fragment):
    np.savez("all.npz", a=np.zeros(2))
    with pytest.raises(UsageError, match=re.escape(fragment)):
        values.read(text)


def test_long_results_are_shortened():
    text = values.show(np.zeros(values.PRINTED_ELEMENTS + 1, np.float32))
    assert text.endswith("0.0...")
    assert values.show(np.zeros((0, 2), np.float32)) == "0x2xf32="


def test_comparison():
    expected = np.array([[1.0, 2.0], [np.nan, 4.0]], np.float32)
    got = expected.copy()
    values.compare("result 0", got, expected, rtol=0, atol=0)
    got[1, 1] = 4.5
    got[0, 0] = 1.1
    with pytest.raises(
        MlirfuseError, match=r"2 of 4 elements .* most at \[1, 1\]: 4.5, expected 4"
    ):
        values.compare("result 0", got, expected, rtol=1e-3, atol=1e-3)
    with pytest.raises(MlirfuseError, match="result 0 is 4xf32; expected 2x2xf32"):
        values.compare("result 0", got.reshape(4), expected, rtol=1, atol=1)


def test_count_stock_alone_lists_the_kernels_of_stock(tmp_path, capsys):
    model = tmp_path / "exp.mlir"
    model.write_text(
        "func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {\n"
        "  %y = math.exp %x : tensor<8xf32>\n"
        "  return %y : tensor<8xf32>\n}\n"
    )
    assert compile_main([str(model), "-o", str(tmp_path / "x.vmfb"), "--count-stock"]) == 0
    shown = capsys.readouterr().err
    assert "stock IREE's program, without fusion of ours: 1 kernel" in shown
