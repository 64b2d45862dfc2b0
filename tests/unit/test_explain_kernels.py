"""The report's page and graph by the kernels of the final program."""

import dataclasses
import re

import pytest

from helpers.browser import browse, browser
from mlirfuse import explain
from mlirfuse.boundaries import Boundary, BoundaryReason
from mlirfuse.core import Report
from mlirfuse.explain import dot, ir_files, kernel_graph, model_explorer
from mlirfuse.explain.graph import Edge, Graph, Group, Op, Output
from mlirfuse.explain.kernels import kernel_lines, op_kinds
from mlirfuse.explain.page_kernels import kernel_rows, stock_rows
from mlirfuse.final_kernels import FinalKernel, Operand

OUTPUT = (Output("tensor<8xf32>", 32),)


def op(location, group=None, layer="", function="main"):
    return Op(function, "linalg.generic", location, layer, group, OUTPUT)


def kernel(name, *ops, layers=(), pass_name=None, match=None, code="iree"):
    operands = (Operand((8,), "f32", 32), Operand((8,), "f32", 32, True))
    return FinalKernel(
        name,
        "main$async",
        ops,
        ("linalg.generic",) * len(ops),
        operands,
        64,
        8,
        code=code,
        pass_name=pass_name,
        match=match,
        layers=layers,
    )


def times(name, us, ops=("a:1",), layers=()):
    return {
        "name": name,
        "ops": [*ops],
        "layers": [*layers],
        "min_us": us / 2,
        "median_us": us,
        "share": us / 100,
        "bytes_per_second": 64 / us * 1e6,
        "copy_share": 0.5,
        "peak_share": None,
        "bound": "memory",
    }


def compiled():
    """Two kernels of IREE's, one with two ops; one of a pass."""
    drawn = Graph(
        (op("a:1"), op("a:2"), op("a:3", group=0), op("a:4")),
        (Group("main", "softmax_fusion", 0, ""),),
        (Edge(0, 0, 1), Edge(1, 0, 2), Edge(2, 0, 3)),
    )
    kernels = [
        kernel("first", "a:1", "a:2"),
        kernel("second", "a:3", pass_name="softmax_fusion", match=0, code="row_triton_kernel"),
        kernel("third", "a:4"),
    ]
    between = Boundary(0, 1, "first", "second", (8,), "f32", 32, BoundaryReason.RESHAPED)
    return Report(
        target="cpu",
        iree="3.13.0",
        options={},
        graph=drawn.to_dict(),
        kernels=kernels,
        boundaries=[between],
    )


def test_the_graph_has_a_box_for_each_kernel_and_an_edge_for_each_boundary():
    found = kernel_graph.of_report(compiled())
    assert [(op.name, op.kernel, op.function) for op in found.ops] == [
        ("first", 0, "main"),
        ("second", 1, "main"),
        ("third", 2, "main"),
    ]
    assert found.edges == (Edge(0, 0, 1, boundary=0),)
    assert found.ops[0].outputs == (Output("8xf32", 32),)
    assert found.groups == ()


def test_a_report_without_kernels_has_the_graph_of_its_groups():
    entry = compiled()
    entry.kernels, entry.boundaries = [], []
    assert kernel_graph.of_report(entry) == Graph.from_dict(entry.graph)


def test_two_tensors_of_one_type_between_two_kernels_are_two_results():
    entry = compiled()
    entry.boundaries *= 2
    found = kernel_graph.of_report(entry)
    assert [edge.output for edge in found.edges] == [0, 1]
    assert len(found.ops[0].outputs) == 2


def test_a_tensor_that_two_kernels_read_is_one_result():
    entry = compiled()
    entry.boundaries.append(dataclasses.replace(entry.boundaries[0], target=2))
    found = kernel_graph.of_report(entry)
    assert [(edge.output, edge.target) for edge in found.edges] == [(0, 1), (0, 2)]


def test_a_kernel_is_in_the_layer_of_the_ops_whose_layer_is_known():
    entry = compiled()
    entry.kernels = [kernel("x", "a:1", "a:2", "-", layers=("b/0/up", "b/0", ""))]
    entry.boundaries = []
    assert kernel_graph.of_report(entry).ops[0].layer == "b/0"


def test_kinds_of_ops_are_named_once():
    names = ("linalg.matmul", "linalg.generic", "linalg.generic")
    made = dataclasses.replace(kernel("x", *"abc"), op_names=names)
    assert op_kinds(made) == "linalg.matmul + linalg.generic"


def test_boundaries_that_differ_by_the_number_of_a_dispatch_are_one_line():
    entry = compiled()
    entry.boundaries = [
        Boundary(
            *(n, n + 1, f"main_dispatch_{n}_slow_memcpy", f"main_dispatch_{n + 1}_slow_memcpy"),
            *((4, 8), "f32", 128, BoundaryReason.DATA_MOVEMENT),
            detail="tensor.insert_slice",
        )
        for n in range(2)
    ]
    shown = "\n".join(kernel_lines(entry, "main$async"))
    assert "#0 -> #1 (x2): 4x8xf32, 128 B (tensor.insert_slice)" in shown


def test_graphs_in_files_have_kernels_and_reasons():
    text = dot.text(compiled())
    assert "#0 first\\nlinalg.generic: formed by IREE\\n(8xf32) -> 8xf32\\ncode of IREE" in text
    (edge,) = [line for line in text.splitlines() if "->" in line and "op0 -> op1" in line]
    assert 'label="32 B\\nreshaped"' in edge
    assert BoundaryReason.RESHAPED.hint in edge
    (shown,) = model_explorer.document(compiled())["graphs"]
    assert [node["label"] for node in shown["nodes"]] == [f"#{i} linalg.generic" for i in range(3)]
    assert {"key": "code", "value": "row_triton_kernel"} in shown["nodes"][1]["attrs"]
    (overlay,) = shown["tasksData"]["edgeOverlaysDataListLeftPane"][0]["overlays"]
    assert overlay["name"] == BoundaryReason.RESHAPED.text


def test_kernels_of_stock_are_beside_those_with_the_same_ops():
    entry = compiled()
    entry.stock_kernels = [kernel("s0", "a:1"), kernel("s1", "a:2"), kernel("s2", "b:9")]
    found = stock_rows(entry, [times("s1", 3.0, ["a:2"])])
    assert found["sets"] == [{"ours": [0], "stock": [0, 1], "bytes": 64, "stock_bytes": 128}]
    assert found["kernels"][1]["measured"]["min_us"] == 1.5


def test_ir_of_a_page_is_that_of_the_files_of_a_dump(tmp_path):
    assert ir_files.read(tmp_path) == {"before": None, "after": None, "steps": []}
    for name, text in (("000_a_before", "0"), ("000_a_after", "1")):
        (tmp_path / f"{name}.mlir").write_text(text)
    for name, text in (("001_b_before", "1"), ("001_b_after", "2")):
        (tmp_path / f"{name}.mlir").write_text(text)
    found = ir_files.read(tmp_path)
    assert found == {"before": "0", "after": "2", "steps": [("a", "0", "1"), ("b", "1", "2")]}


def test_times_are_those_of_the_kernel_with_the_same_ops():
    kernels = [kernel("x", "a:1"), kernel("x", "a:2"), kernel("y", "b:1"), kernel("y", "b:2")]
    measured = [times("x", 4.0, ["a:2"]), times("x", 2.0, ["a:1"]), times("y", 9.0, ["b:1", "b:2"])]
    found = [row["measured"] for row in kernel_rows(kernels, measured)]
    assert [(entry["median_us"], entry["kernels"]) for entry in found] == [
        (2.0, 1),
        (4.0, 1),
        (9.0, 2),
        (9.0, 2),
    ]
    assert [row["measured"] for row in kernel_rows(kernels, ())] == [None] * 4


def page(tmp_path, measured=(), entry=None, **given):
    path = tmp_path / "report.html"
    explain.html(entry or compiled(), path, measured=measured, **given)
    return path


def rows(dom, name):
    body = re.search(rf'<tbody id="{name}">(.*?)</tbody>', dom, re.DOTALL)[1]
    return re.findall(r'<tr class="row".*?</tr>', body, re.DOTALL)


@browser
def test_browser_shows_kernels_and_boundaries(tmp_path):
    dom, console = browse(page(tmp_path))
    assert not console
    assert [re.search(r"first|second|third", row)[0] for row in rows(dom, "kernel-rows")] == [
        "first",
        "second",
        "third",
    ]
    assert "reshaped" in rows(dom, "boundary-rows")[0]
    boxes = re.findall(r'<g class="node kernel.*?</g>', dom, re.DOTALL)
    assert len(boxes) == 3
    for text in ("#1 second", "generic (softmax_fusion)", "8 \u2192 8 f32", "row_triton_kernel"):
        assert text in boxes[1]
    (edge,) = re.findall(r'<g class="kept".*?</g>', dom, re.DOTALL)
    assert BoundaryReason.RESHAPED.text in edge
    assert '<text class="bytes why"' in dom


@browser
def test_browser_says_why_two_kernels_are_two(tmp_path):
    click = "document.querySelector('.kept').dispatchEvent(new MouseEvent('click'));"
    dom, console = browse(page(tmp_path), script=click)
    assert not console
    side = dom.partition('id="node">')[2].partition('class="legend"')[0]
    assert "Why these are two kernels" in side
    assert BoundaryReason.RESHAPED.hint in side


@browser
def test_browser_finds_a_kernel_and_zooms(tmp_path):
    script = """
      const field = document.querySelector('[aria-label="find in the graph"]');
      field.value = "A:4";
      field.dispatchEvent(new Event("input"));
      const width = () => Number(document.querySelector(".drawing svg").getAttribute("width"));
      const before = width();
      document.querySelector('[aria-label="zoom in"]').click();
      document.body.dataset.zoom = String(width() / before);
    """
    dom, console = browse(page(tmp_path), script=script)
    assert not console
    assert re.search(r'id="boxes-found">1 of 1<', dom)
    assert 'class="node kernel chosen found" data-key="k2"' in dom
    assert 'data-zoom="1.25"' in dom


@browser
def test_browser_shows_stock_beside_ours_and_the_ir(tmp_path):
    entry = compiled()
    entry.stock_kernels = [kernel("s0", "a:1"), kernel("s1", "a:2"), kernel("s2", "b:1")]
    path = page(
        tmp_path,
        [times("first", 2.0, ["a:1", "a:2"])],
        entry,
        stock_measured=[times("s0", 3.0, ["a:1"]), times("s1", 5.0, ["a:2"])],
        before="module {}",
        after="module @after {}",
        steps=[("softmax_fusion", "module {}", "module @after {}")],
    )
    dom, console = browse(path)
    assert not console
    (row,) = rows(dom, "stock-rows")
    assert "#0 first" in row
    assert "#1 s1" in row
    assert ">4.00</td>" in row
    assert "only there: s2" in dom
    assert dom.count("<details") == 3
    dom, console = browse(page(tmp_path, steps=[]))
    assert not console
    assert "No pass changed the module." in dom


@browser
@pytest.mark.parametrize(("clicks", "first"), [(1, "third"), (2, "first")])
def test_browser_sorts_kernels_by_time(tmp_path, clicks, first):
    measured = [times("first", 2.0, ["a:1", "a:2"]), times("third", 40.0, ["a:4"])]
    click = """
      const buttons = [...document.querySelectorAll("#kernels th button")];
      const time = buttons.find((button) => button.textContent.startsWith("time"));
      for (let i = 0; i < CLICKS; i += 1) time.click();
      document.querySelector("#kernel-rows tr").click();
    """
    dom, console = browse(page(tmp_path, measured), script=click.replace("CLICKS", str(clicks)))
    assert not console
    found = rows(dom, "kernel-rows")
    measured_rows = [row for row in found if "µs" in row]
    assert first in measured_rows[0]
    assert len(re.findall(r'class="node kernel timed', dom)) == 2
    assert "--heat:0.850" in dom


def test_locations_are_shown_without_the_folder_of_installed_packages():
    entry = compiled()
    where = "/opt/venv/lib/python3.11/site-packages/transformers/models/gpt2/modeling.py:12:0"
    entry.kernels = [kernel("x", where, layers=("h/0",))]
    entry.boundaries = []
    shown = "\n".join(kernel_lines(entry, "main$async"))
    assert "linalg.generic at transformers/models/gpt2/modeling.py:12:0 (h.0)" in shown
    assert "cannot find" not in explain.why(
        entry,
        "transformers/models/gpt2/modeling.py:12:0",
        "transformers/models/gpt2/modeling.py:12",
    )


def test_weights_that_each_call_packs_have_a_hint():
    entry = compiled()
    entry.kernels = [
        dataclasses.replace(entry.kernels[0], operands=(Operand((256, 8, 32), "f32", 262144),)),
        dataclasses.replace(entry.kernels[1], code="matmul_vector_kernel"),
    ]
    moved = dataclasses.replace(
        entry.boundaries[0], shape=(8, 256, 32), reason=BoundaryReason.DATA_MOVEMENT
    )
    entry.boundaries = [moved]
    assert 'options={"pack_weights": True}' in explain.text(entry)
    written = dataclasses.replace(moved, source=1, target=0)  # by a kernel: no argument
    entry.boundaries = [written, moved]
    assert "pack_weights" not in explain.text(entry)


def test_kernels_of_scheduling_are_listed_with_a_hint():
    entry = compiled()
    packing = [
        FinalKernel(f"_encoding_{n}_encode_4xf32", "", (), (), (), None, None) for n in (0, 0)
    ]
    fill = FinalKernel("__builtin_fill_i64", "", (), (), (), None, None)
    entry.kernels = [*entry.kernels, *packing, fill]
    shown = explain.text(entry)
    assert "kernels made by IREE's scheduling (3)" in shown
    assert "_encoding_0_encode_4xf32 (x2)" in shown
    assert 'options={"pack_weights": True}' in shown
    entry.kernels = [fill]
    assert "pack_weights" not in explain.text(entry)
    entry.kernels = []
    assert "scheduling" not in explain.text(entry)


def test_consecutive_kernels_of_one_kind_are_one_entry():
    entry = compiled()
    copies = [kernel(f"main_dispatch_{n}_slow_memcpy", "a:7", layers=("b",)) for n in range(3)]
    entry.kernels = [*copies, kernel("main_dispatch_3_slow_memcpy", "a:8", layers=("b",))]
    entry.boundaries = []
    shown = [line for line in kernel_lines(entry, "main$async") if "#" in line]
    assert shown == [
        "    #0 to #2 main_dispatch_0_slow_memcpy: 1 op each, formed by IREE",
        "    #3 main_dispatch_3_slow_memcpy: 1 op, formed by IREE",
    ]
