"""Cached analyses are valid as long as they are cached."""

from pathlib import Path

import pytest
from iree.compiler import ir

from mlirfuse import targets
from mlirfuse.builders import regions
from mlirfuse.options import FusionOptions
from mlirfuse.patterns import PASSES
from mlirfuse.pipelines import engine
from mlirfuse.structured.expr import upstream_math
from mlirfuse.structured.expr.expressions import define, start
from mlirfuse.structured.expr.nodes import Element
from mlirfuse.structured.ir import analysis_cache, ops, slices

PATTERNS = Path(__file__).parents[2] / "lit_tests" / "patterns"
CPU = targets.parse("cpu:x86-64-v4")
CUDA = targets.parse("cuda:sm_90")

GROUPS = (
    "rms_norm_fusion",
    "add_layer_norm_fusion",
    "group_norm_fusion",
    "softmax_fusion",
    "inference_swiglu_fusion",
    "inference_matmul_split_fusion",
    "matmul_elem_add_fusion",
    "matmul_elem_gelu_fusion",
    "horizontal_fusion",
    "rope_fusion",
    "gather_fusion",
    "conv_bias_activation_fusion",
)
CONTAINED = tuple(name for name, fusion in PASSES.items() if fusion.contained)


def outermost(op):
    while op.parent is not None:
        op = op.parent.operation
    return op


def fresh(ask, op):
    """The answer of the function without a cache."""
    known, keeps = analysis_cache._shared.cache, analysis_cache._shared.of_ops
    analysis_cache._shared.cache = analysis_cache._shared.of_ops = None
    try:
        return ask(op)
    finally:
        analysis_cache._shared.cache, analysis_cache._shared.of_ops = known, keeps


def wrong_facts(known, module):
    """The invalid entries of the cache about the ops of the module."""
    live = {hash(op): op for op in ops.nested_ops(module)}
    for op, answers in known.of_ops.items():
        if hash(op) not in live:
            yield f"{len(answers)} facts of an op that was erased"
            continue
        for ask, answer in answers.items():
            if ask.__name__ != "_form" and fresh(ask, live[hash(op)]) != answer:
                yield f"{ask.__name__} of {op.name}"
    for op in known.steps_of:
        if hash(op) not in live:
            yield "steps through an op that was erased"


@pytest.mark.parametrize("name", [*GROUPS, *CONTAINED])
def test_the_cache_is_valid_after_every_rewrite(name):
    seen, wrong = [], []

    def observer(fusion, match, number):
        module = outermost(match.root)

        def done():
            known = analysis_cache.current()
            seen.append(len(known.of_ops))
            wrong.extend(f"{fusion.name}: {what}" for what in wrong_facts(known, module))

        return done

    target = CPU if CPU.name in PASSES[name].targets else CUDA
    feature = PASSES[name].feature
    if feature == "kernels":
        pytest.importorskip("triton", reason="kernels need triton")
    options = FusionOptions.resolve(enable_feature=[feature] if feature else [])
    texts = (PATTERNS / f"{name}.mlir").read_text(encoding="utf-8").split("// -----")
    for text in texts[:12]:
        with ir.Context():
            module = ir.Module.parse(text)
            engine.run(module, target=target, options=options, observer=observer)
    assert not wrong
    assert max(seen) > 0


TEXT = """
#id = affine_map<(d0) -> (d0)>
func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  %e = tensor.empty() : tensor<8xf32>
  %a = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = math.sqrt %i : f32
    linalg.yield %r : f32
  } -> tensor<8xf32>
  %b = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%a : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = math.absf %i : f32
    linalg.yield %r : f32
  } -> tensor<8xf32>
  return %b : tensor<8xf32>
}
"""


@pytest.fixture
def two():
    """A square root and the absolute value of it."""
    with ir.Context():
        module = ir.Module.parse(TEXT)
        yield [o for o in ops.nested_ops(module.operation) if o.name == "linalg.generic"]


def asked(decorate):
    asks = []

    @decorate
    def name_of(op):
        asks.append(op)
        return op.name

    return asks, name_of


@pytest.mark.parametrize("decorate", [analysis_cache.per_op, analysis_cache.until_change])
def test_outside_a_run_nothing_is_kept(decorate, two):
    asks, name_of = asked(decorate)
    assert name_of(two[0]) == name_of(two[0]) == "linalg.generic"
    assert len(asks) == 2


@pytest.mark.parametrize("decorate", [analysis_cache.per_op, analysis_cache.until_change])
def test_an_answer_is_given_once_in_a_run(decorate, two):
    asks, name_of = asked(decorate)
    for _ in range(2):
        with analysis_cache.run_scope():
            name_of(two[0])
            name_of(two[0])
    assert len(asks) == 2


@pytest.mark.parametrize(
    ("decorate", "kept"), [(analysis_cache.per_op, 1), (analysis_cache.until_change, 0)]
)
def test_a_rewrite_invalidates_entries_about_its_ops(decorate, kept, two):
    asks, name_of = asked(decorate)
    with analysis_cache.run_scope():
        for op in two:
            name_of(op)
        with analysis_cache.rewriting([two[0]]):
            name_of(two[1])
        before = len(asks)
        for op in two:
            name_of(op)
    assert len(asks) - before == 2 - kept


def test_while_a_rewrite_runs_nothing_new_is_kept(two):
    asks, name_of = asked(analysis_cache.per_op)
    with analysis_cache.run_scope():
        with analysis_cache.rewriting([two[1]]):
            name_of(two[0])
        name_of(two[0])
    assert len(asks) == 2


def test_an_undeclared_change_clears_the_cache(two):
    asks, name_of = asked(analysis_cache.per_op)
    with analysis_cache.run_scope():
        name_of(two[0])
        with analysis_cache.rewriting(None):
            pass
        name_of(two[0])
    assert len(asks) == 2


def test_a_step_ends_with_its_op_and_with_the_op_of_its_loops(two):
    first, last = two
    with analysis_cache.run_scope():
        known = analysis_cache.current()
        element = start(last.results[0])
        define(element)
        define(Element(first.results[0], element.index))
        steps = len(known.steps)
        with analysis_cache.rewriting([first]):
            assert len(known.settled) < steps
        assert len(known.steps) == steps - 1
        assert known.settled == {}


def test_upstream_math_ends_at_a_contraction_alone(two):
    first, last = two
    assert upstream_math.holds(last.results[0], upstream_math.ROOT)
    assert not upstream_math.holds(last.results[0], upstream_math.EXPONENTIAL)
    assert not upstream_math.holds(first.operands[0], upstream_math.ROOT)


def test_the_ops_around_a_group_read_what_it_reads():
    """A group copies empty tensors: control flow around it no longer reads the original."""
    text = """
    util.func @main(%x: tensor<4xf32>, %c: i1) -> tensor<4xf32> {
      %e = tensor.empty() : tensor<4xf32>
      %r = scf.if %c -> tensor<4xf32> {
        %a = linalg.copy ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
        scf.yield %a : tensor<4xf32>
      } else {
        scf.yield %x : tensor<4xf32>
      }
      util.return %r : tensor<4xf32>
    }
    """
    with ir.Context(), analysis_cache.run_scope():
        module = ir.Module.parse(text)
        nested = {op.name: op for op in ops.nested_ops(module.operation)}
        branch, group = nested["scf.if"], [nested["linalg.copy"]]
        assert nested["tensor.empty"].results[0] in ops.external_operands(branch)
        with analysis_cache.rewriting(slices.changed_by(group)):
            regions.form_region(group)
        assert not ops.is_read(nested["tensor.empty"].results[0])
        assert nested["tensor.empty"].results[0] not in ops.external_operands(branch)
