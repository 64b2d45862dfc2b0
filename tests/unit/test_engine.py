"""The engine's work for every pass, on a toy pass that groups `exp` with the `sqrt` after it."""

import dataclasses
import itertools
import re

import pytest
from iree.compiler import ir

from helpers.linalg_text import Function
from mlirfuse import targets
from mlirfuse.builders import form_region
from mlirfuse.core import (
    FusionPass,
    Kind,
    Match,
    MlirfuseError,
    NoMatch,
    Numerics,
    PassFailedError,
    Reason,
    Report,
    UsageError,
)
from mlirfuse.options import FusionOptions
from mlirfuse.patterns import PASSES
from mlirfuse.pipelines import engine
from mlirfuse.structured.ir import ops

CPU = targets.parse("cpu")


@dataclasses.dataclass(frozen=True)
class Settings:
    """Options of the toy pass."""

    least: int = 0
    eager: bool = True


def match(root, ctx):
    producer = ops.defining_op(root.operands[0])
    if producer is None or producer.name != "math.exp":
        return None
    if "refused" in root.attributes:
        return NoMatch(Reason.STRUCTURE, "marked")
    return Match(root, (producer, root))


def rewrite(found, ctx):
    return form_region(list(found.ops))


TOY = FusionPass(
    name="toy_fusion",
    summary="exp and the sqrt that reads it",
    roots=("math.sqrt",),
    match=match,
    rewrite=rewrite,
    options=Settings,
    aliases=("plaything",),
)


@pytest.fixture(autouse=True)
def toy(monkeypatch):
    """Puts the toy pass, or changed versions of it, into the table."""

    def put(**changes):
        changed = dataclasses.replace(TOY, **changes)
        monkeypatch.setitem(PASSES, changed.name, changed)
        return changed

    put()
    return put


def pairs(count: int, name: str = "f") -> str:
    """A function with pairs of ops that know nothing of one another."""
    lines = [
        f"  %a{i} = math.exp %x{i} : tensor<8xf32>\n  %b{i} = math.sqrt %a{i} : tensor<8xf32>"
        for i in range(count)
    ]
    arguments = ", ".join(f"%x{i}: tensor<8xf32>" for i in range(count))
    results = ", ".join(f"%b{i}" for i in range(count))
    types = ", ".join(["tensor<8xf32>"] * count)
    body = "\n".join(lines)
    return (
        f"func.func @{name}({arguments}) -> ({types}) {{\n{body}\n  return {results} : {types}\n}}"
    )


def parse(text: str) -> ir.Module:
    return ir.Module.parse(text, ir.Context())


def run(module, pipeline="toy_fusion", target=CPU, dump_dir=None, listener=None, **switches):
    if isinstance(module, str):
        module = parse(module)
    options = FusionOptions(pipeline=pipeline, **switches)
    return engine.run(module, target=target, options=options, dump_dir=dump_dir, listener=listener)


def refusals(report: Report) -> list[tuple[Reason, str]]:
    return [(d.reason, d.detail) for d in report.decisions if d.reason is not None]


def groups(module: ir.Module) -> list[tuple[str, int]]:
    """Pass and match index of each region, in order."""
    with module.context:
        return [
            (
                ir.StringAttr(op.attributes["mlirfuse.pass"]).value,
                ir.IntegerAttr(op.attributes["mlirfuse.match"]).value,
            )
            for op in ops.nested_ops(module.operation)
            if op.name == ops.REGION
        ]


# --- counting ------------------------------------------------------------------------------------


def test_rewrites_are_counted_over_functions():
    module, report = run(pairs(2, "f") + "\n" + pairs(3, "g"))
    assert report.counts() == {"toy_fusion": 5}
    assert sorted(groups(module)) == [("toy_fusion", n) for n in range(5)]
    assert [d.match for d in report.decisions] == list(range(5))
    assert [d.function for d in report.decisions] == ["f", "f", "g", "g", "g"]
    assert all(d.taken and d.op_names == ("math.exp", "math.sqrt") for d in report.decisions)


@pytest.mark.parametrize("limit", range(5))
def test_the_limit_counts_applied_rewrites_of_all_passes(limit, toy):
    toy(name="second_fusion", roots=("math.sqrt",))
    text = pairs(2, "f") + "\n" + pairs(2, "g").replace("math.sqrt", "math.absf")
    toy(name="second_fusion", roots=("math.absf",))
    module, report = run(text, "toy_fusion,second_fusion", fusion_limit=limit)
    assert sum(report.counts().values()) == len(groups(module)) == limit
    assert refusals(report) == [(Reason.FUSION_LIMIT, str(limit))] * (4 - limit)


def test_a_refused_match_has_no_index():
    text = pairs(3).replace("math.sqrt %a1 :", "math.sqrt %a1 {refused} :")
    module, report = run(text)
    assert sorted(groups(module)) == [("toy_fusion", 0), ("toy_fusion", 1)]
    assert [d.match for d in report.decisions] == [0, None, 1]
    assert refusals(report) == [(Reason.STRUCTURE, "marked")]


# --- switches ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("switch", "left"),
    [
        ("toy_fusion", []),
        ("Toy-Fusion", []),
        ("plaything", []),
        ("toy_fusion@match=1", [0, 2, 3]),
        ("toy_fusion@func=g", [0, 1]),
        ("toy_fusion@func=g@match=3", [0, 1, 2]),
        ("toy_fusion@func=nowhere", [0, 1, 2, 3]),
    ],
)
def test_disabling(switch, left):
    module, report = run(pairs(2, "f") + "\n" + pairs(2, "g"), disable_pass=[switch])
    assert sorted(number for _, number in groups(module)) == left
    assert {reason for reason, _ in refusals(report)} <= {Reason.DISABLED}
    assert len(report.decisions) == 4
    assert report.passes[0].enabled is ("@" in switch)


def test_enabling_some_matches_leaves_the_others_off():
    module, report = run(pairs(3), enable_pass=["toy_fusion@match=1"])
    assert groups(module) == [("toy_fusion", 1)]
    assert [reason for reason, _ in refusals(report)] == [Reason.DISABLED] * 2


@pytest.mark.parametrize(
    ("kinds", "kept_out"),
    [(["math.exp"], "math.exp"), (["math.sqrt"], "math.sqrt"), (["math.log"], None)],
)
def test_skipped_op_kinds(kinds, kept_out):
    module, report = run(pairs(1), skip_op_kind=kinds)
    assert (groups(module) == []) is (kept_out is not None)
    assert refusals(report) == ([(Reason.SKIPPED_OP_KIND, kept_out)] if kept_out else [])


def test_skipped_op_kinds_are_looked_for_in_bodies():
    f = Function("f", (4, 8))
    x = f.argument((0, 1), "f32")
    total = f.reduce("arith.addf", f.apply("arith.mulf", x, x), (1,))
    variance = f.apply("arith.addf", f.apply("arith.divf", total, 8.0), 1e-5)
    text = f.finish(f.apply("arith.mulf", x, f.apply("math.rsqrt", variance)))
    _, report = run(text, "rms_norm_fusion", skip_op_kind=["math.rsqrt"])
    assert refusals(report) == [(Reason.SKIPPED_OP_KIND, "math.rsqrt")]


LOCATED = """
func.func @f(%x: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %a = math.exp %x : tensor<8xf32> loc(#exp)
  %b = math.sqrt %a : tensor<8xf32> loc("models/net.py":12:8)
  %c = math.exp %y : tensor<8xf32> loc("models/net.py":120:8)
  %d = math.sqrt %c {mlirfuse.id = "second"} : tensor<8xf32> loc("gate")
  return %b, %d : tensor<8xf32>, tensor<8xf32>
}
#exp = loc(callsite("exp"("lib.py":3:1) at "models/net.py":11:4))
"""


@pytest.mark.parametrize(
    ("mark", "kept_out"),
    [
        ("models/net.py:12:8", "first"),
        ("net.py:12:8", "first"),
        ("net.py:12", "first"),
        ("net.py:11", "first"),
        ("lib.py:3:1", "first"),
        ("exp", "first"),
        ("net.py:120", "second"),
        ("second", "second"),
        ("gate", "second"),
        ("net.py:1", None),
        ("et.py:12", None),
        ("net.py:12:80", None),
    ],
)
def test_never_fuse(mark, kept_out):
    module, report = run(LOCATED, never_fuse=[mark])
    assert len(groups(module)) == (2 if kept_out is None else 1)
    assert refusals(report) == ([] if kept_out is None else [(Reason.NEVER_FUSE, mark)])
    if kept_out is not None:
        (refused,) = (d for d in report.decisions if not d.taken)
        assert ("gate" in refused.ops) is (kept_out == "second")


def test_groups_of_one_op(toy):
    toy(match=lambda root, ctx: Match(root, (root,)))
    module, report = run(pairs(1))
    assert (groups(module), refusals(report)) == ([], [(Reason.SINGLE_OP, "math.sqrt")])
    module, report = run(pairs(1), single_op_groups=True)
    assert groups(module) == [("toy_fusion", 0)]


def test_a_pass_may_take_groups_of_one_op(toy):
    toy(match=lambda root, ctx: Match(root, (root,)), takes_single_op=True)
    assert groups(run(pairs(1))[0]) == [("toy_fusion", 0)]


@pytest.mark.parametrize(
    ("numerics", "limit", "allowed"),
    [
        (Numerics.EXACT, "exact", True),
        (Numerics.REASSOCIATING, "exact", False),
        (Numerics.REASSOCIATING, "reassociating", True),
        (Numerics.PRECISION_CHANGING, "reassociating", False),
        (Numerics.PRECISION_CHANGING, "any", True),
    ],
)
def test_numerics(numerics, limit, allowed, toy):
    toy(numerics=numerics)
    module, report = run(pairs(1), numerics=limit)
    assert (len(groups(module)) == 1) is allowed
    expected = [] if allowed else [(Reason.NUMERICS_LIMIT, str(numerics))]
    assert refusals(report) == expected


def test_targets(toy):
    toy(targets=frozenset({"cuda"}))
    assert refusals(run(pairs(1))[1]) == [(Reason.TARGET_OFF, "cpu")]
    assert len(groups(run(pairs(1), enable_pass=["toy_fusion"])[0])) == 1
    assert len(groups(run(pairs(1), target=targets.parse("cuda"))[0])) == 1
    cannot = dataclasses.replace(CPU, unsupported={"toy_fusion": "no such instruction"})
    _, report = run(pairs(1), target=cannot, enable_pass=["toy_fusion"])
    assert refusals(report) == [(Reason.TARGET_UNSUPPORTED, "no such instruction")]
    assert report.passes[0].enabled is False


def test_the_pass_is_asked_whether_it_is_legal_and_whether_it_pays(toy):
    wrong = NoMatch(Reason.ELEMENT_TYPE, "f8")
    toy(legal=lambda found, ctx: wrong)
    assert refusals(run(pairs(1))[1]) == [(wrong.reason, wrong.detail)]
    dear = NoMatch(Reason.NOT_PROFITABLE, "1 us more")
    toy(profitable=lambda found, ctx: dear)
    module, report = run(pairs(1))
    assert (groups(module), refusals(report)) == ([], [(dear.reason, dear.detail)])


def test_a_pass_that_is_off_is_the_first_reason(toy):
    """The hint of a fusion that does not pay is to force it, which alone would not switch it on."""
    toy(
        targets=frozenset({"cuda"}),
        profitable=lambda found, ctx: NoMatch(Reason.NOT_PROFITABLE, "1 us more"),
    )
    assert refusals(run(pairs(1))[1]) == [(Reason.TARGET_OFF, "cpu; 1 us more")]
    given = {"enable_pass": ["toy_fusion"]}
    assert refusals(run(pairs(1), **given)[1]) == [(Reason.NOT_PROFITABLE, "1 us more")]


def test_the_context_of_a_pass(toy):
    seen = []
    toy(match=lambda root, ctx: seen.append(ctx))
    run(pairs(1), "toy_fusion{least=3 eager=false}", single_op_groups=True)
    (ctx,) = seen
    assert ctx.options == Settings(least=3, eager=False)
    assert (ctx.target, ctx.single_op_groups) == (
        dataclasses.replace(CPU, vector_kernels=True),
        True,
    )


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("toy_fusion{most=3}", "has no option 'most'"),
        ("toy_fusion{least=many}", "'many' is not a value of type int"),
        ("toy_fusion{eager=maybe}", "'maybe' is not a truth value"),
    ],
)
def test_wrong_options_of_a_pass(text, fragment):
    with pytest.raises(UsageError, match=re.escape(fragment)):
        run(pairs(1), text)


# --- groups that may not be ----------------------------------------------------------------------

BOTH = "(%x: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)"


def test_an_op_between_that_reads_and_feeds_the_group():
    text = """
func.func @f(%x: tensor<8x8xf32>, %y: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %a = math.exp %x : tensor<8x8xf32>
  %t = math.absf %a : tensor<8x8xf32>
  %b = arith.addf %a, %t : tensor<8x8xf32>
  return %b : tensor<8x8xf32>
}"""
    module, report = run(text, "adds_fusion")
    assert groups(module) == []
    (refusal,) = refusals(report)
    assert refusal == (Reason.WOULD_CYCLE, "math.absf at -:4:8 reads the group and feeds it")


@pytest.fixture(autouse=True)
def adds(toy):
    """A second toy: `exp` of the first operand with the `addf` that reads it."""
    toy(
        name="adds_fusion",
        aliases=(),
        roots=("arith.addf",),
        match=lambda root, ctx: Match(root, (ops.defining_op(root.operands[0]), root)),
    )


LATE = """
func.func @f{signature} {{
  %a = math.exp %x : tensor<8xf32>
  %early = math.absf %a : tensor<8xf32>
  %p = {producer} %y : tensor<8xf32>
  %q = math.log %p : tensor<8xf32>
  %b = arith.addf %a, %q : tensor<8xf32>
  return %b, %early : tensor<8xf32>, tensor<8xf32>
}}"""


def test_producers_after_the_first_user_move_before_it():
    module, report = run(LATE.format(signature=BOTH, producer="math.sin"), "adds_fusion")
    assert refusals(report) == []
    (function,) = ops.functions(module)
    names = [op.operation.name for op in function.regions[0].blocks[0].operations]
    assert names == ["math.sin", "math.log", ops.REGION, "math.absf", "func.return"]
    region = function.regions[0].blocks[0].operations[2].operation
    early, last = (function.regions[0].blocks[0].operations[n].operation for n in (3, 4))
    assert [r.type for r in region.results] == [v.type for v in last.operands]
    assert early.operands[0] == region.results[0]
    assert last.operands[0] == region.results[1]


def test_an_impure_producer_does_not_move():
    text = LATE.format(signature=BOTH, producer="util.optimization_barrier")
    module, report = run(text, "adds_fusion")
    assert groups(module) == []
    assert refusals(report) == [(Reason.SIDE_EFFECTS, "util.optimization_barrier at -:5:8")]


def test_too_many_operands():
    text = LATE.format(signature=BOTH, producer="math.sin")
    narrow = dataclasses.replace(CPU, max_operands=3)
    module, report = run(text, "adds_fusion", target=narrow)
    assert groups(module) == []
    assert refusals(report) == [
        (Reason.TOO_MANY_OPERANDS, "4 operands and results, the limit is 3")
    ]
    assert len(groups(run(text, "adds_fusion")[0])) == 1


def test_ops_of_another_block():
    text = """
func.func @f(%x: tensor<8xf32>, %c: i1) -> tensor<8xf32> {
  %a = math.exp %x : tensor<8xf32>
  %r = scf.if %c -> tensor<8xf32> {
    %b = math.sqrt %a : tensor<8xf32>
    scf.yield %b : tensor<8xf32>
  } else {
    scf.yield %x : tensor<8xf32>
  }
  return %r : tensor<8xf32>
}"""
    module, report = run(text)
    assert groups(module) == []
    assert [reason for reason, _ in refusals(report)] == [Reason.DIFFERENT_BLOCKS]


def test_ops_of_a_group_are_not_tried_again():
    module, _ = run(pairs(1))
    again, report = run(module)
    assert groups(again) == [("toy_fusion", 0)]
    assert report.decisions == []


def test_one_pass_after_the_other_leaves_groups_alone():
    module, report = run(pairs(2), "toy_fusion{least=1},toy_fusion")
    assert [p.rewrites for p in report.passes] == [2, 0]
    assert len(groups(module)) == 2


# --- the caller's module -------------------------------------------------------------------------


@pytest.fixture
def untouched():
    """A module, and a check that it is unchanged."""
    module = parse(pairs(3))
    before = str(module)
    yield module
    assert str(module) == before
    module.operation.verify()


def test_success_leaves_the_input_as_it_was(untouched):
    module, report = run(untouched)
    assert report.counts() == {"toy_fusion": 3}
    assert str(module) != str(untouched)
    assert module.context == untouched.context


def test_attributes_of_the_module_are_kept():
    text = "module attributes {some.mark = 3 : i64} {\n" + pairs(1) + "\n}"
    module, _ = run(text)
    assert "some.mark = 3 : i64" in str(module)


def raising(found, ctx):
    form_region(list(found.ops))
    raise ValueError("the first line\nand another")


def test_a_pass_that_raises_is_named_with_its_location(untouched, toy):
    toy(match=lambda root, ctx: 1 / 0)
    with pytest.raises(PassFailedError) as failed:
        run(untouched)
    assert re.fullmatch(
        r"pass 'toy_fusion' failed at -:\d+:\d+: ZeroDivisionError: division by zero",
        str(failed.value),
    )


def test_a_pass_that_raises_after_a_rewrite_leaves_the_input_as_it_was(untouched, toy):
    toy(rewrite=raising)
    with pytest.raises(PassFailedError, match=r"pass 'toy_fusion' .*ValueError: the first line$"):
        run(untouched)


def test_errors_of_our_own_come_through(untouched, toy):
    def refuse(root, ctx):
        raise MlirfuseError("message of the pass")

    toy(match=refuse)
    with pytest.raises(MlirfuseError, match=r"^message of the pass$"):
        run(untouched)


def before_its_operand(found, ctx):
    found.root.move_before(found.ops[0])
    return found.root


def test_a_pass_that_leaves_invalid_ir_is_named(untouched, toy):
    toy(rewrite=before_its_operand, kind=Kind.REWRITE)
    with pytest.raises(PassFailedError, match=r"^pass 'toy_fusion' left invalid IR: .*dominate"):
        run(untouched)


def test_a_pass_that_changed_nothing_is_not_verified(monkeypatch):
    module = parse(pairs(1).replace("math.sqrt", "math.log"))
    monkeypatch.setattr(engine.PipelineRun, "_verify", lambda self, name: pytest.fail(name))
    assert run(module)[1].counts() == {}


def test_a_failing_pass_of_mlir_is_named_with_its_error(untouched):
    item = "iree-hal-assign-legacy-target-devices{targetBackends=nonsense}"
    fragment = f"pass '{item}' failed: \"-\":0:0: target backend 'nonsense' not registered"
    with pytest.raises(PassFailedError, match="^" + re.escape(fragment)):
        run(untouched, item)


# --- pipelines -----------------------------------------------------------------------------------

TWICE = """
func.func @f(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %a = math.exp %x : tensor<8xf32>
  %b = math.sqrt %a : tensor<8xf32>
  %c = math.exp %x : tensor<8xf32>
  %d = math.sqrt %c : tensor<8xf32>
  return %b, %d : tensor<8xf32>, tensor<8xf32>
}"""


@pytest.mark.parametrize(
    ("pipeline", "fused"),
    [
        ("toy_fusion", 2),
        ("cse,toy_fusion", 1),
        ("func.func(cse),toy_fusion", 1),
        ("builtin.module(func.func(cse)),toy_fusion", 1),
        ("util.func(cse),toy_fusion", 2),
        ("toy_fusion,cse", 2),
        # As mlir-opt spells it: our pass runs on all functions, those of MLIR under their anchors.
        ("builtin.module(func.func(cse,toy_fusion))", 1),
        ("builtin.module(util.func(cse,toy_fusion,canonicalize),cse)", 2),
        ("canonicalize,cse,toy_fusion{least=2}", 1),
    ],
)
def test_passes_of_mlir_run_between_ours(pipeline, fused):
    _, report = run(TWICE, pipeline)
    assert report.counts() == {"toy_fusion": fused}
    foreign = [p for p in report.passes if p.name != "toy_fusion"]
    assert all(p.enabled and p.rewrites is None for p in foreign)
    ran = [re.sub(r"^.*\((.*)\)$", r"\1", p.name) for p in report.passes]
    assert ran == re.findall(r"[\w-]+(?=[,){]|$)(?!=)", re.sub(r"\{.*?\}", "", pipeline))
    anchors = {p.name.partition("(")[0] for p in report.passes if "(" in p.name}
    assert anchors == set(re.findall(r"\w+\.func", pipeline))


@pytest.mark.parametrize(
    ("pipeline", "unknown"),
    [
        ("csee", "csee"),
        ("toy_fusion,no-such-pass", "no-such-pass"),
        ("util.func(cse,no-such-pass)", "no-such-pass"),
        ("toy_fusoin,cse", "toy_fusoin"),
    ],
)
def test_unknown_passes(pipeline, unknown):
    with pytest.raises(UsageError, match=f"^unknown pass '{unknown}'"):
        run(TWICE, pipeline)


def test_functions_of_both_dialects():
    util = (
        pairs(1, "g").replace("func.func @", "util.func public @").replace("return", "util.return")
    )
    _, report = run(TWICE + util, "cse,toy_fusion")
    assert [d.function for d in report.decisions] == ["f", "g"]


def test_dumps_are_numbered_and_only_of_changes(tmp_path):
    run(TWICE, "toy_fusion{least=1},canonicalize,adds_fusion,toy_fusion", dump_dir=tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "000_toy_fusion_after.mlir",
        "000_toy_fusion_before.mlir",
    ]
    before = (tmp_path / "000_toy_fusion_before.mlir").read_text()
    after = (tmp_path / "000_toy_fusion_after.mlir").read_text()
    assert "flow.dispatch.region" not in before
    assert after.count("flow.dispatch.region") == 2
    assert len(groups(parse(after))) == 2


def test_dumps_of_passes_of_mlir(tmp_path):
    run(TWICE, "cse,toy_fusion", dump_dir=tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        f"{number}_{name}_{moment}.mlir"
        for number, name in (("000", "cse"), ("001", "toy_fusion"))
        for moment in ("after", "before")
    ]
    assert (tmp_path / "000_cse_after.mlir").read_text() == (
        tmp_path / "001_toy_fusion_before.mlir"
    ).read_text()


def test_the_listener_hears_of_each_pass():
    heard = []
    _, report = run(TWICE, "cse,toy_fusion", listener=heard.append)
    assert heard == report.passes
    assert [p.name for p in heard] == ["cse", "toy_fusion"]
    assert all(p.seconds >= 0.0 for p in heard)


def test_the_report_survives_its_dictionary():
    _, report = run(pairs(2), disable_pass=["toy_fusion@match=1"])
    assert Report.from_dict(report.to_dict()) == report
    assert report.target == "cpu"


# --- order ---------------------------------------------------------------------------------------


def outcome(lines: list[str]) -> list[tuple[tuple[str, ...], bool, Reason | None]]:
    """Decisions on a function with these lines, by the names of their ops."""
    arguments = ", ".join(f"%x{i}: tensor<8xf32>" for i in range(3))
    body = "\n".join(lines)
    text = (
        f"func.func @f({arguments}) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {{\n{body}\n"
        "return %b0, %b1, %b2 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>\n}"
    )
    _, report = run(text)
    return sorted((d.ops, d.taken, d.reason) for d in report.decisions)


def test_decisions_do_not_depend_on_the_order_of_independent_ops():
    marks = ["", "{refused}", ""]
    chains = [
        [
            f'%a{i} = math.exp %x{i} : tensor<8xf32> loc("a{i}")',
            f"%b{i} = math.sqrt %a{i} {marks[i]} : tensor<8xf32>" + f' loc("b{i}")',
        ]
        for i in range(3)
    ]
    orders = [list(itertools.chain(*p)) for p in itertools.permutations(chains)]
    orders.append([chain[0] for chain in chains] + [chain[1] for chain in reversed(chains)])
    expected = outcome(orders[0])
    assert len(expected) == 3
    assert all(outcome(order) == expected for order in orders[1:])
