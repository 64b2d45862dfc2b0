"""The report's page and graph by the kernels of the final program."""

import json
import re

import pytest

from helpers.browser import browse, browser
from mlirfuse import explain
from mlirfuse.boundaries import Boundary, BoundaryReason
from mlirfuse.core import Report
from mlirfuse.explain import dot, final_groups, model_explorer
from mlirfuse.explain.graph import Edge, Graph, Group, Op, Output
from mlirfuse.explain.page_kernels import kernel_rows
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


def test_fusions_of_iree_are_groups():
    found = final_groups.of_report(compiled())
    assert [op.group for op in found.ops] == [1, 1, 0, 2]
    assert [(g.pass_name, g.kernel) for g in found.groups] == [
        ("softmax_fusion", 1),
        ("iree", 0),
        ("iree", 2),
    ]


def test_layers_and_order_tell_kernels_of_one_line_apart():
    drawn = Graph((op("a:1", layer="b/0"), op("a:1", layer="b/1"), op("a:2"), op("a:2")))
    by_layer = [kernel("x", "a:1", layers=("b/0",)), kernel("x", "a:1", layers=("b/1",))]
    in_order = [kernel("y", "a:2"), kernel("y", "a:2")]
    found = final_groups.by_kernels(drawn, by_layer + in_order)
    assert [found.groups[op.group].kernel for op in found.ops] == [0, 1, 2, 3]


def test_an_op_whose_kernel_would_be_a_guess_is_in_no_group():
    drawn = Graph((op("a:1"), op("-"), op("a:3", function="other")))
    kernels = [kernel("x", "a:1", "-"), kernel("y", "a:1"), kernel("z", "a:3")]
    assert [o.group for o in final_groups.by_kernels(drawn, kernels).ops] == [None] * 3


def test_graphs_in_files_name_the_kernels_of_iree():
    assert "iree first" in dot.text(compiled())
    assert "iree first" in json.dumps(model_explorer.document(compiled()))


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


def page(tmp_path, measured=()):
    path = tmp_path / "report.html"
    explain.html(compiled(), path, measured=measured)
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
    assert dom.count('class="node group') == 3


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
    assert dom.count('class="node group timed') == 2
    assert "--heat:0.850" in dom
