"""A run on representatives of repeated layers equals a run on all layers."""

import dataclasses
import re

import pytest
from iree.compiler import ir

from mlirfuse import targets
from mlirfuse.options import FusionOptions
from mlirfuse.pipelines import engine
from mlirfuse.pipelines.repeated_layers import detect, shorten
from mlirfuse.pipelines.repeated_layers.op_parts import block_ops
from mlirfuse.pipelines.repeated_layers.replicate import replicate
from mlirfuse.structured.ir import ops

COUNT = 7

HEAD = """
#rows = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
#column = affine_map<(i, j) -> (j)>
func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %zero = arith.constant 0.0 : f32
  %size = arith.constant 64.0 : f32
  %epsilon = arith.constant 1.0e-6 : f32
  {weights}
  %e = tensor.empty() : tensor<64x64xf32>
  %r = tensor.empty() : tensor<64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<64x64xf32>) -> tensor<64x64xf32>
  %s = linalg.fill ins(%zero : f32) outs(%r : tensor<64xf32>) -> tensor<64xf32>
  {layers}
  return %out : tensor<64x64xf32>
}
"""

WEIGHTS = """
  %g@ = arith.constant dense_resource<gamma@> : tensor<64xf32>
  %w@ = arith.constant dense_resource<weight@> : tensor<64x64xf32>
"""

# An RMS norm, a matmul, its activation and a residual add: groups end in the next layer, too.
LAYER = """
  %sum@ = linalg.generic {indexing_maps = [#rows, #row],
      iterator_types = ["parallel", "reduction"]}
      ins(%h@ : tensor<64x64xf32>) outs(%s : tensor<64xf32>) {
  ^bb0(%in: f32, %out: f32):
    %p = arith.mulf %in, %in : f32
    %t = arith.addf %p, %out : f32
    linalg.yield %t : f32
  } -> tensor<64xf32> loc("layer@/square":3:1)
  %y@ = linalg.generic {indexing_maps = [#rows, #row, #column, #rows],
      iterator_types = ["parallel", "parallel"]}
      ins(%h@, %sum@, %g@ : tensor<64x64xf32>, tensor<64xf32>, tensor<64xf32>)
      outs(%e : tensor<64x64xf32>) {
  ^bb0(%in: f32, %a: f32, %b: f32, %out: f32):
    %p = arith.divf %a, %size : f32
    %q = arith.addf %p, %epsilon : f32 loc("layer@/epsilon":4:1)
    %t = math.rsqrt %q : f32
    %u = arith.mulf %in, %t : f32
    %v = arith.mulf %u, %b : f32
    linalg.yield %v : f32
  } -> tensor<64x64xf32> loc("layer@/norm":4:1)
  %m@ = linalg.matmul ins(%y@, %w@ : tensor<64x64xf32>, tensor<64x64xf32>)
      outs(%f : tensor<64x64xf32>) -> tensor<64x64xf32> loc("layer@/product":5:1)
  %a@ = linalg.generic {indexing_maps = [#rows, #rows], iterator_types = ["parallel", "parallel"]}
      ins(%m@ : tensor<64x64xf32>) outs(%e : tensor<64x64xf32>) {
  ^bb0(%in: f32, %out: f32):
    %p = arith.maximumf %in, %zero : f32
    linalg.yield %p : f32
  } -> tensor<64x64xf32> loc("layer@/activation":6:1)
  %next@ = linalg.generic {indexing_maps = [#rows, #rows, #rows],
      iterator_types = ["parallel", "parallel"]}
      ins(%a@, %h@ : tensor<64x64xf32>, tensor<64x64xf32>) outs(%e : tensor<64x64xf32>) {
  ^bb0(%in: f32, %o: f32, %out: f32):
    %p = arith.addf %in, %o : f32
    linalg.yield %p : f32
  } -> tensor<64x64xf32> loc("layer@/sum":7:1)
"""


SCALARS = LAYER[LAYER.index("    %p = arith.divf") : LAYER.index(" : f32 loc")]


def text(change=("", ""), at=4, out=COUNT - 1):
    """A stack of layers, in one of which something is changed, and which one's result goes out."""
    made = []
    for number in range(COUNT):
        layer = LAYER.replace(*change) if number == at and change[0] else LAYER
        layer = layer.replace("%h@", "%x" if number == 0 else f"%next{number - 1}")
        made.append(layer.replace("@", str(number)))
    weights = "".join(WEIGHTS.replace("@", str(n)) for n in range(COUNT))
    whole = HEAD.replace("{weights}", weights).replace("{layers}", "".join(made))
    return whole.replace("return %out", f"return %next{out}")


@pytest.fixture(autouse=True)
def context():
    with ir.Context():
        yield


def found(module):
    block = ops.functions(module)[0].regions[0].blocks[0]
    return detect.find([view.operation for view in block.operations])


def printed(module):
    return module.operation.get_asm(enable_debug_info=True)


def run(module, options, target="cpu:x86-64-v4", observer=None):
    return engine.run(module, target=targets.parse(target), options=options, observer=observer)


def short_run(module):
    """A run on the short module: itself, the grouped module, the report and the records.

    Its matmuls become kernels, and its norms stay groups.
    """
    short = shorten.shorten(module, engine.clone)
    options = FusionOptions(disable_pass=("row_vector_kernel",))
    target = targets.parse("cpu:x86-64-v4")
    work = engine.PipelineRun.of(short.module, target, options, None, None)
    return short, *work.passes(None), work.state.records


# --- layers -----------------------------------------------------------------------------------


def test_layers_are_found():
    """The first one reads the function's argument, and the shared values for the first time."""
    stack = found(ir.Module.parse(text()))
    assert (stack.size, stack.count) == (5, COUNT - 1)
    assert stack.before == 4


@pytest.mark.parametrize(
    "change",
    [
        ("arith.maximumf", "arith.minimumf"),
        ("arith.mulf %u, %b", "arith.mulf %b, %u"),
        ("arith.addf %p, %epsilon", "arith.addf %p, %size"),
        (
            SCALARS,
            SCALARS.replace("%size", "%t").replace("%epsilon", "%size").replace("%t", "%epsilon"),
        ),
        ('loc("layer@/epsilon":4:1)', 'loc("layer@/norm":4:1)'),
        ("ins(%a@, %h@ :", "ins(%h@, %a@ :"),
        ("ins(%a@, %h@ :", "ins(%a@, %x :"),
        ("ins(%a@, %h@ :", "ins(%a@, %next1 :"),
        ("ins(%h@, %sum@, %g@ :", "ins(%h@, %sum@, %g1 :"),
        ("[#rows, #rows], iter", "[affine_map<(i, j) -> (j, i)>, #rows], iter"),
        ("{indexing_maps = [#rows, #row],", "{marked, indexing_maps = [#rows, #row],"),
    ],
    ids=str,
)
def test_a_change_ends_the_repetition(change):
    """Another op, operand, map or attribute."""
    assert found(ir.Module.parse(text(change))).count < COUNT - 2


def inline(source):
    """The vectors are small, so that their data is in the text."""
    numbers = ", ".join(f"{n}.0" for n in range(1, 64))
    return re.sub(r"dense_resource<gamma(\d)>", rf"dense<[\1.5, {numbers}]>", source)


def test_weights_in_the_text_are_weights():
    assert found(ir.Module.parse(inline(text()))).count == COUNT - 1


def test_a_splat_is_compared():
    source = text().replace("dense_resource<gamma4>", "dense<2.0>")
    assert found(ir.Module.parse(source)).count < COUNT - 2
    for number in range(COUNT):
        source = source.replace(f"dense_resource<gamma{number}>", "dense<2.0>")
    assert found(ir.Module.parse(source)).count == COUNT - 1


# --- runs -------------------------------------------------------------------------------------


SEARCH = {"pipeline": "elementwise_fusion,horizontal_fusion"}


def one_name(source):
    """The layers come from the same lines of a model."""
    return re.sub(r'"layer\d/(\w+)"', r'"\1.py"', source)


def parameters(source):
    """The weights come from elsewhere when the program is loaded."""
    held = r"arith.constant dense_resource<(\w+)>"
    return re.sub(held, r'flow.tensor.constant #flow.parameter.named<"model"::"\1">', source)


@pytest.mark.parametrize("target", ["cpu:x86-64-v4", "cuda:sm_90"])
@pytest.mark.parametrize(
    ("source", "switches"),
    [
        (text(), {}),
        (parameters(text()), {}),
        (inline(text()), {}),
        (one_name(text()), {}),
        (one_name(text()), SEARCH),
        (text(), {"pipeline": "norms_only"}),
    ],
    ids=["named", "parameters", "inline", "lines", "search", "norms"],
)
def test_replication_equals_a_run_on_all(source, switches, target):
    module, options = ir.Module.parse(source), FusionOptions.resolve(**switches)
    listened = []
    done = engine.run_on_representatives(module, targets.parse(target), options, listened.append)
    assert done is not None
    grouped, report = run(module, options, target, observer=lambda *_: lambda: None)
    assert printed(done[0]) == printed(grouped)
    assert done[1].decisions == report.decisions
    assert done[1].counts() == report.counts()
    assert listened == done[1].passes


def test_a_search_that_orders_by_the_layers_names_is_run_on_all():
    module, options = ir.Module.parse(text()), FusionOptions.resolve(**SEARCH)
    assert engine.run_on_representatives(module, targets.parse("cpu"), options, None) is None


def test_a_location_of_three_layers_is_not_replicable():
    short = shorten.shorten(ir.Module.parse(text()), engine.clone)
    places = {short.layer(o.location): o.location for o in block_ops(short.module, "main")}
    assert set(places) == {None, 0, 1, 2, shorten.REPRESENTATIVES}
    assert short.layer(ir.Location.fused([places[1], places[2]])) == 2
    with pytest.raises(shorten.NotReplicable):
        short.layer(ir.Location.fused([places[0], places[1], places[2]]))


@pytest.mark.parametrize("source", [text(), parameters(text())], ids=["constants", "parameters"])
@pytest.mark.parametrize(
    ("switches", "packing", "name"),
    [
        ({}, "matmul_vector_kernel", "packed_filter"),
        ({"disable_feature": ("kernels",)}, "weight_packing_rewrite", "packed_weight"),
    ],
    ids=["kernels", "without_kernels"],
)
def test_each_layer_keeps_its_weights_and_lines(source, switches, packing, name):
    grouped, report = run(ir.Module.parse(source), FusionOptions(**switches))
    assert packing in report.counts()
    shown = printed(grouped)
    assert shorten.ops.INTERNAL_NAME_PREFIX not in shown
    packed = re.findall(r"\bweight(\d)\b", shown)
    assert packed == [str(n) for n in range(COUNT)]
    read = re.findall(rf"global.load immutable @({name}\w*)", shown)
    assert read == [name, *(f"{name}_{n}" for n in range(COUNT - 1))]
    norms = [d.ops for d in report.decisions if d.taken and d.pass_name == "rms_norm_fusion"]
    assert norms == [("layer0/square:3:1", "layer0/norm:4:1")]
    added = [d.ops for d in report.decisions if d.taken and d.pass_name == "add_rms_norm_fusion"]
    assert sorted(added) == [
        (f"layer{n}/sum:7:1", f"layer{n + 1}/square:3:1", f"layer{n + 1}/norm:4:1")
        for n in range(COUNT - 1)
    ]


def test_ops_without_a_location_have_no_name():
    source = re.sub(r' loc\(".*?"[:\d]*\)', " loc(unknown)", text())
    module = ir.Module.parse(source)
    options = FusionOptions.resolve(**SEARCH)
    done = engine.run_on_representatives(module, targets.parse("cpu"), options, None)
    assert done is not None
    assert {name for d in done[1].decisions for name in d.ops} == {"-"}
    assert "linalg.generic reads the group and feeds it" in {d.detail for d in done[1].decisions}


@pytest.mark.parametrize(
    "switches",
    [
        {"fusion_limit": 3},
        {"never_fuse": ["layer4/sum:7:1"]},
        {"must_fuse": ["layer4/sum:7:1,layer4/activation:6:1"]},
        {"disable_pass": ["rms_norm_fusion@match=1"]},
        {"pipeline": "rms_norm_fusion,cse"},
        {"pipeline": "rms_norm_fusion,rms_norm_fusion"},
    ],
    ids=str,
)
def test_switches_that_distinguish_layers_run_on_all(switches):
    module, options = ir.Module.parse(text()), FusionOptions.resolve(**switches)
    assert engine.run_on_representatives(module, targets.parse("cpu"), options, None) is None


@pytest.mark.parametrize("layer", [1, 2, 4])
def test_a_user_of_an_inner_layer_needs_all(layer):
    module = ir.Module.parse(text(out=layer))
    assert shorten.shorten(module, engine.clone) is None


def test_few_layers_are_not_shortened(monkeypatch):
    monkeypatch.setattr(shorten, "MIN_LAYERS", COUNT)
    assert shorten.shorten(ir.Module.parse(text()), engine.clone) is None


# --- differences between layers ----------------------------------------------------------------


def test_equal_layers_are_replicated():
    module = ir.Module.parse(text())
    assert replicate(*short_run(module))


@pytest.mark.parametrize("change", ["lacks", "twice", "detail", "far"])
def test_a_decision_that_differs_in_one_layer(change):
    short, grouped, report, records = short_run(ir.Module.parse(text()))
    place = [short.layer(m.places[-1]) for m in records].index(0)
    other = dataclasses.replace(records[place].decision, detail="other")
    instead = {"lacks": [], "twice": [records[place]] * 2}
    instead["detail"] = [dataclasses.replace(records[place], decision=other)]
    far = next(m for m in records if short.layer(m.places[-1]) == 2)
    instead["far"] = [
        records[place],
        dataclasses.replace(far, places=far.places + records[place].places),
    ]
    assert not replicate(
        short, grouped, report, [*records[:place], *instead[change], *records[place + 1 :]]
    )


CHANGES = [
    "attribute",
    "group",
    "group's place",
    "global",
    "initializer",
    "longer",
    "operand",
    "weight",
]


@pytest.mark.parametrize("change", CHANGES)
def test_an_op_that_differs_in_one_layer(change):
    short, grouped, report, records = short_run(ir.Module.parse(text()))
    block = block_ops(grouped, "main")
    weights = [op for op in block if short.place(op) in short.layers.weights]
    held = [
        [op for op in block if short.layer(op.location) == n and op not in weights]
        for n in range(3)
    ]
    groups = [[op for op in layer if op.name == ops.REGION] for layer in held]
    if change == "attribute":
        held[1][0].attributes["other"] = ir.UnitAttr.get()
    elif change == "longer":
        held[1][-1].clone(ir.InsertionPoint(held[2][0]))
    elif change == "group":
        groups[1][0].attributes["mlirfuse.match"] = groups[0][0].attributes["mlirfuse.match"]
    elif change == "group's place":
        groups[2][-1].location = groups[1][-1].location
    elif change == "global":
        load = next(op for op in held[1] if op.name == "util.global.load")
        load.attributes["global"] = ir.FlatSymbolRefAttr.get("packed_weight")
    elif change == "initializer":
        made_at_load = [o.operation for o in grouped.body.operations]
        made_at_load = [op for op in made_at_load if op.name == "util.initializer"]
        shuffled = next(op for op in ops.nested_ops(made_at_load[2]) if ops.is_generic(op))
        shuffled.attributes["other"] = ir.UnitAttr.get()
    else:
        data = [op.results[0] for op in weights]
        reader, number = next(
            (op, number)
            for group in groups[1]
            for op in ops.nested_ops(group)
            for number, value in enumerate(op.operands)
            if value in data
        )
        same = [v for v in data if v.type == reader.operands[number].type]
        reader.operands[number] = next(v for v in same if short.layer(v.owner.location) == 0)
        if change == "operand":
            reader.operands[0] = reader.operands[1]
    assert not replicate(short, grouped, report, records)
