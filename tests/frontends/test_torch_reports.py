"""What `torch.compile` says about its graphs: reports, folders, log."""

import gc
import json
import logging
import os
import re
import subprocess
import sys
import textwrap
import types

import pytest
import torch
from torch import nn

import mlirfuse
from mlirfuse import explain, torch_compile
from mlirfuse.explain import documents
from mlirfuse.torch_backend import graph_breaks, reports

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

REPORT = {"report.html", "decisions.json", "explain.txt"}
IR = {"imported.mlir", "grouped.mlir"}


@pytest.fixture(autouse=True)
def fresh(monkeypatch, tmp_path_factory):
    monkeypatch.setenv("MLIRFUSE_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "cache"))
    monkeypatch.delenv("TORCH_COMPILE_DEBUG", raising=False)
    monkeypatch.setattr(torch_compile, "_warned", set())
    reports._reports.clear()
    torch._dynamo.reset()
    torch.manual_seed(0)


torch.manual_seed(0)
LAYER = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8)).eval()


def noisy(x):
    y = LAYER(x)
    return LAYER(y + torch.rand_like(y))


def run(model, **options):
    step = torch.compile(model, backend="mlirfuse", options=options)
    with torch.no_grad():
        step(torch.randn(4, 8))
    return step


def names(folder):
    return {path.name for path in folder.iterdir()}


def breaking(x):
    y = LAYER(x)
    print(end="")
    if y.sum() > 1e9:
        y = y + 1
    return LAYER(y)


def test_graph_breaks():
    """Each graph says where Dynamo ended it; the last one ends with the function."""
    run(breaking)
    first, second, last = mlirfuse.torch_reports()
    start = breaking.__code__.co_firstlineno
    assert first.graph_break.line == f"{__file__}:{start + 2}"
    assert "`print`" in first.graph_break.reason
    assert "Hint" not in first.graph_break.reason
    assert second.graph_break.line == f"{__file__}:{start + 3}"
    assert second.graph_break.reason.startswith("Data-dependent branching")
    assert last.graph_break is None
    assert str(first).endswith(f"; graph break: {first.graph_break}")
    assert str(second.graph_break) in second.explain()
    assert "graph break" not in str(last) + last.explain()


def test_graph_break_without_a_known_line():
    graph = torch.fx.GraphModule({}, torch.fx.Graph())
    assert graph_breaks.of_graph(graph) is None
    graph.compile_subgraph_reason = types.SimpleNamespace(
        reason="", user_stack=[], graph_break=True
    )
    assert str(graph_breaks.of_graph(graph)) == "no reason is known"
    graph.compile_subgraph_reason.graph_break = False
    assert graph_breaks.of_graph(graph) is None


def test_reports_of_the_last_graphs():
    kept = run(LAYER), run(noisy)
    whole, parts = mlirfuse.torch_reports()
    assert parts.name == "graph_1_0"
    assert (whole.name, whole.target, whole.left, whole.reason) == ("graph_0_0", "cpu", (), "")
    (program,) = whole.programs
    assert (program.name, program.ops) == ("graph", whole.ops)
    assert program.program.report is program.report
    assert program.explain() == explain.text(program.report)
    assert program.kernels == program.program.kernels
    assert len(whole.kernels) == program.report.dispatches["fused"]
    assert parts.kernels == sum((part.kernels for part in parts.programs), ())
    assert program.explain() in whole.explain()
    assert "left to PyTorch (0 of" in whole.explain()
    assert [p.name for p in parts.programs] == ["part_0", "part_1"]
    assert f"left to PyTorch (1 of {parts.ops} ops)" in parts.explain()
    assert (
        f"rand_like: 'aten.rand_like.default' draws random numbers ({__file__}:" in parts.explain()
    )
    del kept
    torch._dynamo.reset()
    gc.collect()
    assert [p.program for graph in (whole, parts) for p in graph.programs] == [None] * 3
    assert program.explain()  # the report is kept


def test_layers_of_a_model_that_a_function_calls_have_its_name():
    """Not Dynamo's `G['LAYER']`."""
    step = run(lambda x: torch.tanh(LAYER(x)))
    (program,) = mlirfuse.torch_reports()[-1].programs
    layers = {layer for kernel in program.report.kernels for layer in kernel.layers if layer}
    assert layers == {"LAYER/0", "LAYER/1", "LAYER/2"}
    assert explain.why(program.report, "LAYER.0", "LAYER.2").startswith("no: ")
    del step


def test_a_graph_that_pytorch_runs_has_a_report():
    model = nn.Linear(8, 8)
    torch.compile(model, backend="mlirfuse")(torch.randn(4, 8))
    (report,) = mlirfuse.torch_reports()
    assert (report.programs, report.target) == ((), "")
    assert report.reason.startswith("it needs gradients")
    assert str(report).startswith("graph_0_0: 1 op, ")
    assert str(report).endswith(f"; left to PyTorch as a whole: {report.reason}")
    assert report.explain() == f"PyTorch runs the whole graph: {report.reason}\n"


def test_old_reports_are_forgotten(monkeypatch):
    run(LAYER)
    (first,) = mlirfuse.torch_reports()
    for _ in range(reports.MAX_REPORTS):
        reports.remember(first)
    assert len(mlirfuse.torch_reports()) == reports.MAX_REPORTS == 64


def test_log(caplog):
    caplog.set_level(logging.DEBUG, "mlirfuse.torch")
    for _ in range(2):
        torch._dynamo.reset()
        run(noisy)
    records = [r for r in caplog.records if r.name == "mlirfuse.torch"]
    first, second = [r.getMessage() for r in records if r.levelno == logging.INFO]
    report = mlirfuse.torch_reports()[0]
    start = f"graph_0_0: {report.ops} ops, 2 programs for cpu, "
    assert first.startswith(start)
    assert re.search(r", \d+ dispatches, \d+ with generated kernels, ", first)
    assert " of 2 from the cache, " in first
    assert ", 2 of 2 from the cache, " in second
    assert "; left to PyTorch: 'aten.rand_like.default' draws random numbers" in first
    assert "\n" not in first
    warnings = [r for r in records if r.levelno == logging.WARNING]
    assert len(warnings) == 1  # the second time nothing is new
    debug = [r.getMessage() for r in records if r.levelno == logging.DEBUG]
    assert any(line.startswith("graph_0_0, part_1: ") for line in debug)
    assert any(line.startswith("graph_0_0: PyTorch runs rand_like: ") for line in debug)


def test_counts_of_a_stock_program():
    run(LAYER, stock=True)
    (report,) = mlirfuse.torch_reports()
    count = report.programs[0].report.dispatches["stock"]
    assert f", {count} dispatch" in str(report)


def test_folders_of_reports(tmp_path):
    folder = tmp_path / "reports"
    run(LAYER, report=str(folder))
    torch._dynamo.reset()
    run(noisy, report=folder)
    whole, parts = folder / "graph_0_0", folder / "graph_0_0.1"
    assert names(folder) == {whole.name, parts.name}
    assert names(whole) == {*REPORT, "left_to_pytorch.txt"}
    assert names(parts) == {"part_0", "part_1", "left_to_pytorch.txt"}
    assert names(parts / "part_1") == REPORT
    first, second = mlirfuse.torch_reports()
    assert (first.folders, second.folders) == ((whole,), (parts,))
    program = first.programs[0]
    document = documents.report_document(program.report)
    assert json.loads((whole / "decisions.json").read_text()) == document
    assert (whole / "explain.txt").read_text() == program.explain()
    page = (whole / "report.html").read_text()
    assert "<html" in page
    assert '"after":null' not in page
    assert "mlirfuse.pass" in page
    assert (parts / "left_to_pytorch.txt").read_text() == second.left_text()


def check_debug(folder):
    assert names(folder) == {
        *("dynamo_graph.py", "aten_graph.py", "parts.py", "left_to_pytorch.txt"),
        *("part_0", "part_1"),
    }
    assert "torch.rand_like(" in (folder / "dynamo_graph.py").read_text()
    assert "torch.ops.aten.rand_like.default" in (folder / "aten_graph.py").read_text()
    assert "self.part_0(" in (folder / "parts.py").read_text()
    for part in ("part_0", "part_1"):
        assert names(folder / part) == {*REPORT, *IR}
    assert "linalg." in (folder / "part_0" / "imported.mlir").read_text()
    grouped = (folder / "part_0" / "grouped.mlir").read_text()
    assert "mlirfuse.pass" in grouped
    page = (folder / "part_0" / "report.html").read_text()
    assert '"after":null' not in page
    assert "mlirfuse.pass" in page


def test_debug_folder_of_an_option(tmp_path):
    run(noisy, debug_dir=str(tmp_path))
    (report,) = mlirfuse.torch_reports()
    assert report.folders == (tmp_path / "graph_0_0",)
    check_debug(tmp_path / "graph_0_0")
    torch._dynamo.reset()
    run(torch.rand_like, debug_dir=str(tmp_path))
    last = tmp_path / "graph_0_0.1"
    assert names(last) == {"dynamo_graph.py", "aten_graph.py", "left_to_pytorch.txt"}
    torch._dynamo.reset()
    run(LAYER, debug_dir=str(tmp_path), stock=True)
    last = tmp_path / "graph_0_0.2"
    assert "imported.mlir" in names(last)
    assert "grouped.mlir" not in names(last)


PROCESS = """
    import torch
    layer = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.LayerNorm(8))
    def noisy(x):
        y = layer(x)
        return layer(y + torch.rand_like(y))
    with torch.no_grad():
        torch.compile(noisy, backend="mlirfuse")(torch.randn(4, 8))
"""


def test_debug_folder_beside_those_of_pytorch(tmp_path):
    command = [sys.executable, "-c", textwrap.dedent(PROCESS)]
    environment = os.environ | {"TORCH_COMPILE_DEBUG": "1"}
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True)
    (run_folder,) = tmp_path.glob("torch_compile_debug/run_*")
    assert {"mlirfuse", "torchdynamo"} <= names(run_folder)
    check_debug(run_folder / "mlirfuse" / "graph_0_0")


def test_folders_that_cannot_be_written(tmp_path, monkeypatch, caplog):
    file = tmp_path / "file"
    file.write_text("")
    for option in ("report", "debug_dir"):
        for folder in (file, file / "inside"):
            torch._dynamo.reset()
            with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as raised:
                run(LAYER, **{option: str(folder)})
            assert f"options: cannot write to the folder {folder}: " in str(raised.value)
        torch._dynamo.reset()
        with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as raised:
            run(LAYER, **{option: 3})
        assert f"options: {option}=3 is no path of a folder" in str(raised.value)

    def fail(*_args, **_kwargs):
        raise RuntimeError("planted")

    monkeypatch.setattr(explain, "html", fail)
    torch._dynamo.reset()
    run(LAYER, report=str(tmp_path / "reports"))
    (line,) = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert line.endswith("are left out: RuntimeError: planted")
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="planted"):
        run(LAYER, report=str(tmp_path / "reports"), disable_feature=["fallback"])
