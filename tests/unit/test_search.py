"""The search for groups: merges, copies and refusals, and that order does not matter."""

import importlib.util

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from iree.compiler import ir

from helpers.linalg_text import Function
from helpers.shuffled import shuffle
from mlirfuse import builders, targets
from mlirfuse.core import MustFuseError, Reason, UsageError
from mlirfuse.options import FusionOptions
from mlirfuse.patterns.reduction_fusion import MAX_DEPENDENT_REDUCTIONS
from mlirfuse.pipelines import engine
from mlirfuse.structured.ir import analysis_cache

M, N = 16, 24
UNARY = ("math.absf", "math.exp", "arith.negf")
BINARY = ("arith.addf", "arith.mulf", "arith.maximumf")


def run(text: str, *, target: str = "cpu", seed: int | None = None, **switches: object):
    """The rewritten module as text, and the report."""
    switches = {"pipeline": "reduction_fusion,elementwise_fusion", **switches}
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        if seed is not None:
            shuffle(module, seed)
            assert module.operation.verify()
        made, report = engine.run(
            module, target=targets.parse(target), options=FusionOptions.resolve(**switches)
        )
        assert made.operation.verify()
        return str(made), report


def groups(report) -> set[tuple[str, tuple[str, ...]]]:
    """The groups that were made: pass, and lines of their ops."""
    return {(d.pass_name, tuple(sorted(d.ops))) for d in report.decisions if d.taken}


def refusals(report) -> set[str]:
    return {d.reason.code for d in report.decisions if not d.taken}


def line_of(text: str, op: str) -> str:
    """Position of the generic with this scalar op in its body, without the file's name."""
    lines = text.splitlines()
    at = next(n for n, line in enumerate(lines) if op in line)
    while "linalg.generic" not in lines[at]:
        at -= 1
    return f"-:{at + 1}"


@st.composite
def programs(draw):
    """A function of random elementwise ops, broadcasts and row sums that share their operands."""
    f = Function("f", (M, N))
    values = [f.argument((0, 1), "f32"), f.argument((0, 1), "f32"), f.argument((1,), "f32")]
    for _ in range(draw(st.integers(2, 14))):
        kind = draw(st.sampled_from(["unary", "binary", "binary", "sum"]))
        a, b = draw(st.sampled_from(values)), draw(st.sampled_from(values))
        if kind == "unary":
            values.append(f.apply(draw(st.sampled_from(UNARY)), a))
        elif kind == "sum" and a.axes == (0, 1):
            values.append(f.reduce("arith.addf", a, (1,)))
        elif kind == "binary" and {a.axes, b.axes} != {(0,), (1,)}:
            values.append(f.apply(draw(st.sampled_from(BINARY)), a, b))
    made = values[3:]
    kept = draw(st.lists(st.sampled_from(made), min_size=1, unique=True)) if made else values[:1]
    return f.finish(*kept)


@settings(max_examples=30, deadline=None)
@given(programs(), st.integers(0, 1000))
def test_order_of_independent_ops_does_not_matter(text, seed):
    assert groups(run(text)[1]) == groups(run(text, seed=seed)[1])


@settings(max_examples=20, deadline=None)
@given(programs())
def test_without_passes_the_module_is_unchanged(text):
    with ir.Context():
        assert run(text, pipeline="none")[0] == str(ir.Module.parse(text))


def test_a_producer_of_a_broadcast_is_copied_into_both_users():
    f = Function("f", (M, N))
    x, y, b = f.argument((0, 1), "f32"), f.argument((0, 1), "f32"), f.argument((1,), "f32")
    scale = f.apply("math.absf", b)
    text, report = run(f.finish(f.apply("arith.addf", x, scale), f.apply("arith.mulf", y, scale)))
    assert text.count("math.absf") == 2
    assert text.count("flow.dispatch.region") == 2
    assert [len(ops) for _, ops in groups(report)] == [2, 2]


def test_the_cache_of_analyses_knows_that_users_read_copies(monkeypatch):
    """It finds an op by its operands: a change that it is not told of leaves entries behind."""
    sound, scopes = builders.own_copies, []

    def own_copies(copied, group):
        scopes.append(analysis_cache._shared.of_ops is None)
        return sound(copied, group)

    monkeypatch.setattr(builders, "own_copies", own_copies)
    test_a_producer_of_a_broadcast_is_copied_into_both_users()
    assert scopes == [True, True]


def test_a_producer_whose_copies_cost_more_than_its_bytes_is_left_alone():
    f = Function("f", (M, N, 4096))
    x, y = f.argument((0, 2), "f32"), f.argument((1, 2), "f32")
    b = f.argument((2,), "f32")
    slow = b
    for _ in range(40):
        slow = f.apply("math.exp", slow)
    text, _ = run(f.finish(f.apply("arith.addf", x, slow), f.apply("arith.mulf", y, slow)))
    assert text.count("math.exp") == 40


def test_a_result_that_others_read_is_kept():
    f = Function("f", (M, N))
    x = f.argument((0, 1), "f32")
    a = f.apply("math.absf", x)
    text, _ = run(f.finish(f.apply("arith.negf", a), a))
    assert "-> (tensor<16x24xf32>, tensor<16x24xf32>)" in text
    assert text.count("flow.dispatch.region") == 1


def test_no_group_feeds_an_op_that_feeds_it():
    f = Function("f", (M, N))
    x, w = f.argument((0, 1), "f32"), f.argument((0, 1), "f32")
    a = f.apply("math.absf", x)
    between = f.apply("math.sin", a)
    text, report = run(
        f.finish(f.apply("arith.addf", f.apply("arith.mulf", a, w), between)),
        skip_op_kind="math.sin",
    )
    assert {len(ops) for _, ops in groups(report)} == {2}
    assert "would_cycle" in refusals(report)
    assert text.index("math.absf") < text.index("math.sin") < text.index("arith.addf")


def test_limits_of_operands_and_ops():
    f = Function("f", (M, N))
    total = f.argument((0, 1), "f32")
    for _ in range(40):
        total = f.apply("arith.addf", total, f.argument((0, 1), "f32"))
    _, report = run(f.finish(total))
    assert "too_many_operands" in refusals(report)
    assert len(groups(report)) == 2
    f = Function("g", (M, N))
    value = f.argument((0, 1), "f32")
    for _ in range(70):
        value = f.apply("math.absf", value)
    _, report = run(f.finish(value))
    assert "too_many_ops" in refusals(report)
    assert sum(len(ops) for _, ops in groups(report)) == 70


def shared_values(count: int) -> str:
    """Values of one tensor, all of which are read once from first to last and once backwards."""
    f = Function("f", (M, N))
    x = f.argument((0, 1), "f32")
    values = [f.apply("math.sin", f.apply("arith.mulf", x, float(n + 2))) for n in range(count)]
    first, last = values[0], values[-1]
    for value in values[1:]:
        first = f.apply("arith.mulf", f.apply("arith.addf", first, value), value)
    for value in reversed(values[:-1]):
        last = f.apply("arith.addf", f.apply("arith.mulf", last, value), value)
    return f.finish(f.apply("arith.subf", first, last))


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")
def test_a_group_for_a_kernel_takes_all_that_it_alone_uses():
    """Each pair of its parts has too many results."""
    switches = {"pipeline": "elementwise_fusion", "target": "cuda:sm_90"}
    text = shared_values(20)
    _, report = run(text, enable_feature=("kernels",), **switches)
    assert len(groups(report)) == 1
    assert "too_many_operands" not in refusals(report)
    _, report = run(text, disable_feature=("kernels",), **switches)
    assert len(groups(report)) > 1
    assert "too_many_operands" in refusals(report)


def test_reductions_that_wait_for_each_other_are_limited():
    """IREE takes a minute for fourteen: each is computed again for all that reads it."""
    f = Function("f", (M, N))
    value = f.argument((0, 1), "f32")
    for _ in range(MAX_DEPENDENT_REDUCTIONS + 2):
        value = f.apply("arith.subf", value, f.reduce("arith.addf", value, (1,)))
    _, report = run(f.finish(value))
    sizes = [len(ops) for _, ops in groups(report)]
    assert sum(sizes) == 2 * (MAX_DEPENDENT_REDUCTIONS + 2)
    assert len(sizes) == 2
    details = {d.detail for d in report.decisions if d.reason is Reason.TOO_MANY_OPS}
    assert details == {f"more than {MAX_DEPENDENT_REDUCTIONS} reductions one after the other"}


def test_the_worth_of_a_group_is_in_its_decision():
    """It is against stock IREE, which fuses a chain, and reads the rows of two sums twice."""
    f = Function("f", (1024, 1024))
    x = f.argument((0, 1), "f32")
    _, report = run(f.finish(f.apply("arith.negf", f.apply("math.absf", x))))
    assert {(d.bytes_saved, d.gain_us) for d in report.decisions} == {(0, 0.0)}
    f = Function("f", (1024, 1024))
    x = f.argument((0, 1), "f32")
    centered = f.apply("arith.subf", x, f.reduce("arith.addf", x, (1,)))
    _, report = run(
        f.finish(f.apply("arith.subf", centered, f.reduce("arith.addf", centered, (1,))))
    )
    (taken,) = [d for d in report.decisions if d.taken]
    assert taken.bytes_saved == 4 * 1024 * 1024 + 2 * 4 * 1024
    assert taken.gain_us > targets.parse("cpu").launch_us


# --- must ----------------------------------------------------------------------------------


def unprofitable() -> str:
    """A sum of few rows, and an op on its result: together they leave most of a GPU idle."""
    f = Function("f", (4, 1 << 20))
    x = f.argument((0, 1), "f32")
    return f.finish(f.apply("arith.subf", x, f.reduce("arith.addf", x, (1,))))


def test_must_fuse_overrules_the_model():
    text = unprofitable()
    plain, report = run(text, target="cuda")
    assert "flow.dispatch.region" not in plain
    assert "not_profitable" in refusals(report)
    wanted = f"{line_of(text, 'arith.addf')},{line_of(text, 'arith.subf')}"
    forced, report = run(text, target="cuda", must_fuse=wanted)
    assert forced.count("flow.dispatch.region") == 1
    assert "not_profitable" not in refusals(report)


@pytest.mark.parametrize(
    ("switches", "fragment"),
    [
        ({"disable_pass": "reduction_fusion"}, "disabled"),
        ({"fusion_limit": 0}, "fusion_limit"),
        ({"skip_op_kind": "arith.subf"}, "skipped_op_kind"),
        ({"pipeline": "none"}, "no pass takes them together"),
    ],
)
def test_must_fuse_fails_with_the_reason(switches, fragment):
    text = unprofitable()
    wanted = f"{line_of(text, 'arith.addf')},{line_of(text, 'arith.subf')}"
    with pytest.raises(MustFuseError) as caught:
        run(text, must_fuse=wanted, **switches)
    message = str(caught.value)
    assert f"--must-fuse={wanted}: the ops are in 2 dispatches of @f" in message
    assert fragment in message
    assert "\n" not in message


def test_must_fuse_of_nothing_is_an_error():
    with pytest.raises(
        UsageError, match="--must-fuse names -:99, and no op that computes is there"
    ):
        run(unprofitable(), must_fuse="-:99,-:98")
