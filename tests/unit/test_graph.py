"""The fusion graph: from a module, in a report, for Graphviz and for Model Explorer."""

import json
import re
import shutil
import subprocess

import pytest

from helpers.explained import FUSED, HOSTILE, REFUSED, decision, report
from mlirfuse import explain
from mlirfuse.core import Kind, MlirfuseError, Reason, Report, UsageError
from mlirfuse.explain import dot, graph, model_explorer


def named(drawn):
    return [(op.function, op.name, op.group) for op in drawn.ops]


def test_graph_of_a_module():
    drawn = graph.of_text(FUSED)
    assert named(drawn) == [
        ("main", "linalg.copy", 0),
        ("main", "linalg.copy", None),
        ("main", "linalg.copy", None),
        ("main", "linalg.copy", None),
    ]
    assert drawn.groups == (graph.Group("main", "softmax_fusion", 3, ""),)
    assert {op.location for op in drawn.ops} == {"-"}
    assert drawn.edges == (graph.Edge(0, 0, 1), graph.Edge(2, 0, 3))
    assert drawn.ops[0].outputs == (graph.Output("tensor<4x8xf32>", 4 * 8 * 4),)
    assert drawn.ops[2].outputs == (graph.Output("tensor<?x8xf32>", None),)


def test_graph_has_the_source_lines_of_a_text_with_locations():
    text = FUSED.replace("-> tensor<?x8xf32>\n  util", '-> tensor<?x8xf32> loc("m.py":7:2)\n  util')
    assert graph.of_text(text).ops[3].location == "m.py:7:2"


@pytest.mark.parametrize(
    ("location", "layer"),
    [
        ('"mlirfuse.layer:blocks.0.norm"("m.py":1:1)', "blocks/0/norm"),
        ('"jit(f)/jit(main)/attn/mlirfuse.region:must:mlp/add"', "attn"),
        ('"/encoder/layer.0/MatMul"', "encoder/layer.0"),
        ('"/home/me/m.py":3:4', ""),
        ('"MatMul_3"', ""),
    ],
)
def test_graph_has_the_layers_of_the_model(location, layer):
    text = FUSED.replace(
        "-> tensor<?x8xf32>\n  util", f"-> tensor<?x8xf32> loc({location})\n  util"
    )
    assert graph.of_text(text).ops[3].layer == layer


@pytest.mark.parametrize(
    ("layers", "common"),
    [
        (["a/b", "a/b"], "a/b"),
        (["a/b", "a/bc"], "a"),
        (["a", ""], ""),
        (["a", "a/b"], "a"),
        ([], ""),
    ],
)
def test_a_group_is_in_the_layer_that_holds_its_ops(layers, common):
    assert graph.common_layer(layers) == common


def test_graph_goes_through_control_flow():
    text = """
func.func @main(%c: i1, %x: tensor<4xf32>) -> tensor<4xf32> {
  %a = linalg.copy ins(%x : tensor<4xf32>) outs(%x : tensor<4xf32>) -> tensor<4xf32>
  %r = scf.if %c -> tensor<4xf32> {
    %b = linalg.copy ins(%a : tensor<4xf32>) outs(%x : tensor<4xf32>) -> tensor<4xf32>
    scf.yield %b : tensor<4xf32>
  } else {
    scf.yield %x : tensor<4xf32>
  }
  %d = linalg.copy ins(%r : tensor<4xf32>) outs(%x : tensor<4xf32>) -> tensor<4xf32>
  return %d : tensor<4xf32>
}"""
    assert graph.of_text(text).edges == (graph.Edge(0, 0, 1), graph.Edge(1, 0, 2))


def test_graph_of_a_report_survives_the_schema():
    drawn = graph.of_text(FUSED)
    entry = report(decision(), graph=drawn.to_dict())
    again = Report.from_dict(json.loads(json.dumps(entry.to_dict())))
    assert graph.of_report(again) == drawn


def test_graph_of_invalid_mlir():
    with pytest.raises(MlirfuseError, match="cannot draw the fused module"):
        graph.of_text("func.func @f(")


def test_graph_of_a_report_without_one_has_its_groups():
    drawn = graph.of_report(report(decision(), REFUSED, decision(kind=Kind.REWRITE)))
    assert drawn.groups == (graph.Group("main", "add_rms_norm_fusion", 0, ""),)
    assert [op.location for op in drawn.ops] == list(decision().ops)
    assert drawn.edges == ()


# --- refusals, and the steps ----------------------------------------------------------------------


def chain(*places, group=None):
    """Ops in a row at these locations."""
    tensor = graph.Output("tensor<16xf32>", 64)
    made = [
        graph.Op("main", "linalg.generic", place, "", (group or {}).get(i), (tensor,))
        for i, place in enumerate(places)
    ]
    edges = [graph.Edge(i, 0, i + 1) for i in range(len(places) - 1)]
    groups = [graph.Group("main", "add_rms_norm_fusion", 0, "")] if group else []
    return graph.Graph(tuple(made), tuple(groups), tuple(edges))


def apart(*places, **changes):
    names = ("linalg.generic",) * len(places)
    return decision(**({"reason": Reason.STRUCTURE, "ops": places, "op_names": names} | changes))


def pairs(drawn, *decisions):
    return [(r.source, r.target, r.decision, r.tensor) for r in graph.refused(drawn, decisions)]


def test_a_refused_candidate_is_on_the_tensors_between_its_ops():
    drawn = chain("m:1:1", "m:2:1", "m:3:1")
    assert pairs(drawn, decision(), apart("m:2:1", "m:3:1")) == [(1, 2, 1, True)]
    assert pairs(drawn, apart("m:1:1", "m:3:1")) == []
    assert pairs(drawn, apart("m:1:1", "m:2:1", function="other")) == []


def test_equal_refusals_are_one():
    drawn = chain("m:1:1", "m:2:1")
    assert pairs(drawn, *[apart("m:1:1", "m:2:1")] * 3) == [(0, 1, 0, True)]


def test_two_ops_of_one_line_are_apart_where_a_candidate_held_two():
    drawn = chain("m:1:1", "m:1:1")
    assert pairs(drawn, apart("m:1:1")) == []
    assert pairs(drawn, apart("m:1:1", "m:1:1")) == [(0, 1, 0, True)]
    assert pairs(chain("-", "-"), apart("-", "-")) == []


def test_refused_siblings_are_connected_without_a_tensor():
    drawn = chain("m:1:1", "m:2:1", "m:3:1")
    siblings = apart("m:1:1", "m:3:1", kind=Kind.SIBLING)
    assert pairs(drawn, siblings) == [(0, 2, 0, False)]
    assert pairs(chain(*["m:1:1"] * 9), apart("m:1:1", kind=Kind.SIBLING)) == []


def test_steps_are_groups_and_runs_of_rewrites():
    drawn = chain("m:1:1", "m:2:1", group={0: 0, 1: 0})
    tidy = decision(kind=Kind.REWRITE, pass_name="tidy_rewrite")
    other = decision(kind=Kind.REWRITE, pass_name="other_rewrite")
    found = graph.steps(drawn, [tidy, REFUSED, tidy, other, decision(), tidy])
    assert found == [
        graph.Step((0, 2), None),
        graph.Step((3,), None),
        graph.Step((4,), 0),
        graph.Step((5,), None),
    ]


# --- files -----------------------------------------------------------------------------------


def drawn_report(*decisions, place="m.py:1:1", layer="blocks/0"):
    """A group of two ops, and one that a candidate wanted in it."""
    tensor = {"type": "tensor<16xf32>", "size": 64}
    made = [
        {
            "function": "main",
            "name": "linalg.generic",
            "location": f"{place}{i}",
            "layer": layer,
            "group": 0 if i < 2 else None,
            "outputs": [tensor],
        }
        for i in range(3)
    ]
    group = {"function": "main", "pass_name": "add_rms_norm_fusion", "match": 0, "layer": layer}
    edges = [{"source": i, "output": 0, "target": i + 1} for i in range(2)]
    wanted = apart(f"{place}1", f"{place}2", detail=HOSTILE)
    entry = {"ops": made, "groups": [group], "edges": edges}
    return report(decision(), wanted, *decisions, graph=entry)


def test_dot_has_layers_groups_bytes_and_reasons():
    text = dot.text(drawn_report())
    outer = text.index('label="blocks"')
    inner = text.index('label="0"')
    group = text.index(
        'label="add_rms_norm_fusion match 0\\nsaves 3.0 MiB of traffic, rank 2 of 2 by time"'
    )
    assert text.index('label="@main"') < outer < inner < group < text.index("op0 [")
    assert 'op0 -> op1 [label="64 B", tooltip="tensor<16xf32>"];' in text
    (kept,) = re.findall(r"op1 -> op2 \[(.*)\];", text)
    assert kept.startswith('label="64 B", style=dotted')
    assert Reason.STRUCTURE.hint in kept
    assert "\x1b" not in text


@pytest.mark.skipif(shutil.which("dot") is None, reason="needs Graphviz (Debian package graphviz)")
def test_graphviz_draws_it():
    def drawn(entry):
        command = ["dot", "-Tsvg"]
        done = subprocess.run(command, input=dot.text(entry), capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    shown = drawn(drawn_report(place=HOSTILE, layer='a"b/c\\'))
    assert len(re.findall(r'class="node"', shown)) == 3
    assert len(re.findall(r'class="edge"', shown)) == 2
    assert len(re.findall(r'class="cluster"', shown)) == 4
    assert "edge" not in drawn(report())


TEXT_PAIRS = [{"key": str, "value": str}]
NODE = {
    "id": str,
    "label": str,
    "namespace": str,
    "attrs": TEXT_PAIRS,
    "incomingEdges": [{"sourceNodeId": str, "sourceNodeOutputId": str, "targetNodeInputId": str}],
    "outputsMetadata": [{"id": str, "attrs": TEXT_PAIRS}],
}
OVERLAY = {
    "name": str,
    "edgeColor": str,
    "edges": [{"sourceNodeId": str, "targetNodeId": str, "label": str}],
}
OVERLAYS = [{"name": str, "type": str, "overlays": [OVERLAY]}]
TASKS = {"edgeOverlaysDataListLeftPane": OVERLAYS, "edgeOverlaysDataListRightPane": OVERLAYS}
GRAPH = {"id": str, "nodes": [NODE], "groupNodeAttributes": dict, "tasksData": TASKS}
COLLECTION = {"label": str, "graphs": [GRAPH]}
"""The fields that we write, with their types, in Model Explorer's graph builder."""


def follows(schema, value):
    if isinstance(schema, dict):
        assert set(value) == set(schema)
        for key, inner in value.items():
            follows(schema[key], inner)
    elif isinstance(schema, list):
        for inner in value:
            follows(schema[0], inner)
    else:
        assert isinstance(value, schema)


def test_model_explorer_format():
    made = json.loads(json.dumps(model_explorer.document(drawn_report())))
    follows(COLLECTION, made)
    (shown,) = made["graphs"]
    assert [node["namespace"] for node in shown["nodes"]] == [
        "blocks/0/add_rms_norm_fusion match 0",
        "blocks/0/add_rms_norm_fusion match 0",
        "blocks/0",
    ]
    assert shown["nodes"][2]["incomingEdges"] == [
        {"sourceNodeId": "1", "sourceNodeOutputId": "0", "targetNodeInputId": "0"}
    ]
    assert {"key": "bytes", "value": "64 B"} in shown["nodes"][1]["outputsMetadata"][0]["attrs"]
    worth = shown["groupNodeAttributes"]["blocks/0/add_rms_norm_fusion match 0"]
    assert worth["switch"] == "--disable-pass=add_rms_norm_fusion@match=0"
    (overlay,) = shown["tasksData"]["edgeOverlaysDataListLeftPane"][0]["overlays"]
    assert overlay["name"] == Reason.STRUCTURE.text
    assert overlay["edges"][0]["sourceNodeId"] == "1"
    assert overlay["edges"][0]["label"].startswith("add_rms_norm_fusion: ")


def test_model_explorer_gets_a_graph_for_each_function():
    other = report(decision(), decision(function="other"))
    made = model_explorer.document(other)
    assert [shown["id"] for shown in made["graphs"]] == ["main", "other"]
    assert [len(shown["nodes"]) for shown in made["graphs"]] == [3, 3]
    assert model_explorer.document(report())["graphs"] == []


def test_the_ending_of_a_graph_file_says_its_format(tmp_path):
    entry = drawn_report()
    explain.write_graph(entry, tmp_path / "g.dot")
    explain.write_graph(entry, tmp_path / "g.json")
    assert (tmp_path / "g.dot").read_text() == dot.text(entry)
    assert json.loads((tmp_path / "g.json").read_text()) == model_explorer.document(entry)
    with pytest.raises(UsageError, match=r"takes FILE\.dot or FILE\.json"):
        explain.write_graph(entry, tmp_path / "g.svg")
