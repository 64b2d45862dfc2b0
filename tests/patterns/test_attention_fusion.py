"""Recognition of attention and its masks; the attention op compiles for GPUs."""

import dataclasses
import math
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from iree.compiler import ir

from helpers.attention_text import K, M, write
from mlirfuse import targets
from mlirfuse.core import NoMatch, PassContext, Reason
from mlirfuse.options import FusionOptions
from mlirfuse.patterns import PASSES
from mlirfuse.pipelines import engine
from mlirfuse.structured.expr import expressions
from mlirfuse.structured.expr.expansion import delinearize, linearize
from mlirfuse.structured.expr.loop_domains import common_domain, digits
from mlirfuse.structured.expr.nodes import Apply, Const, Element, IndexOf
from mlirfuse.structured.expr.reshapes import step
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize import attention, mask_analysis, masks
from mlirfuse.support.subprocess import run_tool

V1, V2 = "flash_attention_fusion_v1", "flash_attention_fusion_v2"
COMPILE_SECONDS = 120
"""Time limit of one run of the compiler."""

FOLLOWED_SECONDS = 2.0
"""Time limit, far above that of a bounded walk and far below that of 2^60 visits."""

SMALL = (2, 3, 1, 16, 8, 8, 24)
"""Batch, heads of k, heads of q each, queries, width of v and of q, keys."""


class Parsed:
    """The attention of the first function of a module."""

    def __init__(self, text: str) -> None:
        self.module = ir.Module.parse(text, ir.Context())
        self.block = ops.functions(self.module)[0].regions[0].blocks[0]
        last = [o.operation for o in self.block.operations if ops.is_contraction(o.operation)][-1]
        self.root = last
        self.found = attention.find_attention(last)


def with_sizes(queries: int, keys: int) -> tuple[int, ...]:
    extents = list(SMALL)
    extents[M], extents[K] = queries, keys
    return tuple(extents)


# --- masks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mask", "queries", "keys", "masks_a_row"),
    [
        ("causal", 16, 24, False),
        ("causal", 24, 16, False),
        ("own", 16, 24, False),
        ("own", 24, 16, True),
        ("after", 16, 24, False),
        ("after", 25, 24, True),
        ("window", 16, 24, False),
        ("window", 24, 24, True),
        ("boolean", 16, 24, True),
        ("lowest", 16, 24, False),
        ("added", 16, 24, False),
        ("bias", 16, 24, True),
        ("", 16, 24, False),
    ],
)
def test_rows_are_zeroed_only_if_the_mask_can_mask_one(mask, queries, keys, masks_a_row):
    text, _ = write("main", with_sizes(queries, keys), mask=mask, zero=True)
    parsed = Parsed(text)
    assert (parsed.found.masked is not None) == masks_a_row


def test_nothing_is_zeroed_unless_the_graph_does():
    text, _ = write("main", SMALL, mask="boolean")
    assert Parsed(text).found.masked is None


def test_a_dynamic_mask_of_indices_may_mask_a_row():
    text, _ = write("main", SMALL, mask="causal", zero=True, dynamic=(M, K))
    assert Parsed(text).found.masked is not None


def test_a_mask_over_two_row_dimensions_is_not_followed():
    """Unmasked where batch and query have one index: if they shared it, no row would be masked."""
    parsed = Parsed(write("main", SMALL, mask="causal", zero=True)[0])
    key = parsed.found.domain.dims[parsed.found.key].base
    keep = Apply("arith.cmpi", (IndexOf(0), IndexOf(2)), "0 : i64", "i1", parsed.root)
    assert mask_analysis.masked_rows(keep, key, parsed.found.domain.size_of) is not None


@pytest.mark.parametrize(
    ("mask", "dtype", "kind"),
    [
        ("causal", "f32", "i1"),
        ("boolean", "f32", "i1"),
        ("lowest", "f32", "f32"),
        ("bias", "f32", "f32"),
    ],
)
def test_masks_of_minus_infinity_are_boolean(mask, dtype, kind):
    text, _ = write("main", SMALL, mask=mask, dtype=dtype)
    assert expressions.type_of(Parsed(text).found.mask) == kind


@given(st.floats(allow_nan=False, width=32))
def test_bounded_constants_survive_log2e_and_swallow_scores(number):
    bounded = masks.bounded(Const(number, "f32"))
    assert isinstance(bounded, Const)
    if number == -math.inf:
        assert bounded.number == -math.inf
    elif number < masks.FINITE_MASK_VALUE:
        assert bounded.number == masks.FINITE_MASK_VALUE
        assert bounded.number * math.log2(math.e) > -3.4028234663852886e38
    else:
        assert bounded.number == number


def test_lowest_is_as_low_as_the_factor_allows():
    largest = 3.4028234663852886e38
    assert masks.MIN_MASK_VALUE * math.log2(math.e) > -largest
    assert 1.05 * masks.MIN_MASK_VALUE * math.log2(math.e) < -largest


def test_a_mask_of_shared_parts_is_read_in_bounded_time():
    """The bias squared sixty times, in the body that adds it: a tree of 2^60 leaves."""
    text, _ = write("main", SMALL, mask="bias")
    add = next(line for line in text.splitlines() if "arith.addf %a0, %a1" in line)
    squares = ["%s0 = arith.mulf %a1, %a1 : f32"]
    squares += [f"%s{n} = arith.mulf %s{n - 1}, %s{n - 1} : f32" for n in range(1, 60)]
    text = text.replace(add, "\n".join([*squares, add.replace("%a1", "%s59")]))
    began = time.perf_counter()
    found = Parsed(text).found
    assert time.perf_counter() - began < FOLLOWED_SECONDS
    assert found.refusal.reason is Reason.STRUCTURE


# --- dimensions ----------------------------------------------------------------------------------


@st.composite
def factorizations(draw):
    """A list of sizes, and two ways to collapse neighbours."""
    sizes = draw(st.lists(st.sampled_from([1, 2, 3, 4]), min_size=1, max_size=6))
    ends = [draw(st.lists(st.booleans(), min_size=len(sizes), max_size=len(sizes)))] * 2
    ends[1] = draw(st.lists(st.booleans(), min_size=len(sizes), max_size=len(sizes)))
    groups = []
    for chosen in ends:
        parts: list[list[int]] = [[]]
        for number, end in enumerate(chosen):
            parts[-1].append(number)
            if end and number + 1 < len(sizes):
                parts.append([])
        groups.append(parts)
    return sizes, groups


def value_of(index, bases, sizes):
    """The number that an index is, from its digits."""
    total = 0
    for digit in digits(index, lambda base: sizes[base]):
        size = digit.size
        total = total * size + bases[digit.base] // digit.stride % size
    return total


@given(factorizations(), st.data())
def test_digits_follow_reshapes(case, data):
    """Collapsed loops, split to the fine sizes and collapsed the other way, keep their position."""
    fine, (first, second) = case
    base_sizes = [math.prod(fine[d] for d in group) for group in first]
    bases = [data.draw(st.integers(0, s - 1)) for s in base_sizes]
    split = []
    for number, group in enumerate(first):
        radix = tuple(fine[d] for d in group)
        split += [delinearize(number, place, radix) for place in range(len(radix))]
    collapsed = [linearize(tuple(split[d] for d in g), tuple(fine[d] for d in g)) for g in second]
    position = 0
    for base, size in zip(bases, base_sizes, strict=True):
        position = position * size + base
    again = 0
    for index, group in zip(collapsed, second, strict=True):
        size = math.prod(fine[d] for d in group)
        again = again * size + value_of(index, bases, base_sizes)
    assert again == position
    domain = common_domain([*range(len(base_sizes)), *collapsed], lambda base: base_sizes[base])
    assert math.prod(d.size for d in domain.dims) == math.prod(base_sizes)
    for index, group in zip(collapsed, second, strict=True):
        sizes = [domain.dims[d].size for d in domain.of(index)]
        assert math.prod(sizes) == math.prod(fine[d] for d in group)


def test_splits_that_do_not_nest_have_no_domain():
    by_four = linearize((delinearize(0, 0, (4, 6)),), (4,))
    by_three = linearize((delinearize(0, 0, (3, 8)),), (3,))
    assert common_domain([0, by_four, by_three], lambda base: 24) is None


@pytest.mark.parametrize(
    ("before", "after", "sizes", "known"),
    [
        ("8x?x?", "2x4x?x?", "%c2, %c4, %m, %n", True),
        ("8x?x?", "2x4x?x?", "%c2, %c4, %m, %other", True),
        ("8x?x?", "2x4x?x?", "%c2, %c4, %n, %m", False),
        ("8x?x?", "2x4x?x?", "%c2, %c4, %other, %more", False),
        ("8x?x?", "4x?x2x?", "%c4, %m, %c2, %n", False),
        ("2x4x?x?", "8x?x?", "%c8, %m, %n", True),
        ("8x3x?x?", "6x4x?x?", "%c6, %c4, %m, %n", False),
    ],
)
def test_views_with_dynamic_sizes(before, after, sizes, known):
    """A `tensor.reshape` is looked through only where its sizes say which dimension is which."""
    rank = len(after.split("x"))
    module = ir.Module.parse(
        f"""
    func.func @main(%m0: index, %n0: index, %other: i64, %more: i64) -> tensor<{after}xf32> {{
      %c2 = arith.constant 2 : i64
      %c4 = arith.constant 4 : i64
      %c6 = arith.constant 6 : i64
      %c8 = arith.constant 8 : i64
      %m = arith.index_cast %m0 : index to i64
      %n = arith.index_cast %n0 : index to i64
      %e = tensor.empty(%m0, %n0) : tensor<{before}xf32>
      %s = tensor.from_elements {sizes} : tensor<{rank}xi64>
      %r = tensor.reshape %e(%s) : (tensor<{before}xf32>, tensor<{rank}xi64>) -> tensor<{after}xf32>
      return %r : tensor<{after}xf32>
    }}""",
        ir.Context(),
    )
    block = ops.functions(module)[0].regions[0].blocks[0]
    result = block.operations[len(block.operations) - 1].operation.operands[0]
    found = step(Element(result, tuple(range(rank))))
    assert (found is not None) == known
    if known:
        assert found.index[-2:] == (rank - 2, rank - 1)


# --- the passes ----------------------------------------------------------------------------------


def test_operands_are_limited():
    text, _ = write("main", SMALL, mask="boolean", zero=True)
    parsed = Parsed(text)
    target = targets.parse("cuda")
    context = PassContext(target=target, options=PASSES[V1].options())
    match = PASSES[V1].match(parsed.root, context)
    # q, k, v, the result, the mask and the rows that it masks.
    assert PASSES[V1].legal(match, context) is None
    for limit, allowed in ((6, True), (5, False)):
        tight = dataclasses.replace(target, max_operands=limit)
        refusal = PASSES[V1].legal(match, dataclasses.replace(context, target=tight))
        assert (refusal is None) == allowed
        if not allowed:
            assert isinstance(refusal, NoMatch)
            assert refusal.reason is Reason.TOO_MANY_OPERANDS


def test_each_attention_belongs_to_one_pass():
    for mask, name, other in (("", V2, V1), ("causal", V1, V2)):
        parsed = Parsed(write("main", SMALL, mask=mask)[0])
        context = PassContext(target=targets.parse("cuda"), options=PASSES[name].options())
        assert not isinstance(PASSES[name].match(parsed.root, context), NoMatch | None)
        assert PASSES[other].match(parsed.root, context) is None


@pytest.mark.parametrize(("dynamic", "fused"), [((M,), True), ((K,), False), ((M, K), False)])
def test_a_dynamic_number_of_keys_needs_the_option(dynamic, fused):
    text, _ = write("main", SMALL, mask="boolean", dynamic=dynamic)
    _, report = run(text, "rocm", disable_feature=("kernels",))
    assert [d.reason for d in report.decisions] == [None if fused else Reason.NOT_PROFITABLE]
    _, report = run(text, "rocm", pipeline=f"{V1}{{dynamic-keys=true}}")
    assert report.counts() == {V1: 1}


@pytest.mark.parametrize(
    ("loops", "detail"),
    [
        ((1, 2, 1, 32, 16, 16, 48), ""),
        ((1, 2, 1, 2, 128, 128, 50), ""),
        ((1, 2, 1, 33, 16, 16, 48), "16 does not divide"),
        ((1, 2, 1, 32, 16, 16, 50), "16 does not divide"),
        ((1, 2, 1, 32, 16, 24, 48), "16 does not divide"),
        ((1, 2, 1, 32, 24, 16, 48), "16 does not divide"),
        ((1, 2, 1, 32, 16, 80, 48), "heads larger than 64"),
        ((1, 2, 1, 32, 80, 16, 48), "heads larger than 64"),
    ],
)
def test_slow_sizes_need_the_option(loops, detail):
    text, _ = write("main", loops, mask="boolean")
    _, report = run(text, "cuda", disable_feature=("kernels",))
    (decision,) = report.decisions
    assert decision.reason is (Reason.NOT_PROFITABLE if detail else None)
    assert detail in decision.detail
    for allowed in ({"pipeline": f"{V1}{{any-size=true}}"}, {}):
        assert run(text, "cuda", **allowed)[1].counts() == {V1: 1}
    assert run(text, "rocm")[1].counts() == {V1: 1}


@pytest.mark.parametrize(("heads", "queries", "rows"), [(4, 64, "d2, d4"), (64, 32, "d1, d4")])
def test_the_most_rows_are_the_innermost(heads, queries, rows):
    fused, _ = run(write("main", (1, 8, heads, queries, 16, 16, 16), mask="bias")[0], "cuda")
    (made,) = re.findall(r"iree_linalg_ext.attention .*indexing_maps = \[([^\]]*)", str(fused))
    aliases = dict(re.findall(r"^(#\w+) = affine_map<(.*)>$", str(fused), re.MULTILINE))
    q = aliases.get(made.split(", #")[0].split(",")[0].strip(), made)
    assert f"{rows})" in q


ATTENTION_OP = """
#q = affine_map<(b, m, n, d, k) -> (b, m, d)>
#k = affine_map<(b, m, n, d, k) -> (b, k, d)>
#v = affine_map<(b, m, n, d, k) -> (b, k, n)>
#none = affine_map<(b, m, n, d, k) -> ()>
#o = affine_map<(b, m, n, d, k) -> (b, m, n)>
util.func public @main(%q: tensor<4x16x8xf32>) -> tensor<4x16x8xf32> {
  %e = tensor.empty() : tensor<4x16x8xf32>
  %s = arith.constant 5.000000e-01 : f32
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #none, #o]> ins(%q, %q, %q, %s : tensor<4x16x8xf32>, tensor<4x16x8xf32>, tensor<4x16x8xf32>, f32) outs(%e : tensor<4x16x8xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<4x16x8xf32>
  util.return %r : tensor<4x16x8xf32>
}
"""  # noqa: E501


def run(text: str, target: str, **switches):
    module = ir.Module.parse(text, ir.Context())
    options = FusionOptions(**{"pipeline": f"{V1},{V2}", **switches})
    return engine.run(module, target=targets.parse(target), options=options)


def test_an_attention_op_in_the_model_is_left_alone():
    fused, report = run(ATTENTION_OP, "cuda")
    assert str(fused) == str(ir.Module.parse(ATTENTION_OP, ir.Context()))
    assert report.decisions == []


def test_a_rewrite_removes_its_own_match():
    once, report = run(write("main", SMALL, mask="bias")[0], "rocm")
    assert report.counts() == {V1: 1}
    twice, report = run(str(once), "rocm")
    assert report.counts() == {}
    assert str(twice) == str(once)


@pytest.mark.parametrize(
    ("target", "switches", "reason"),
    [
        ("cpu", {"disable_feature": ("kernels",)}, Reason.NOT_PROFITABLE),
        ("vulkan", {}, Reason.TARGET_UNSUPPORTED),
        ("vulkan", {"enable_pass": (V1, V2)}, Reason.TARGET_UNSUPPORTED),
        ("rocm", {"numerics": "exact"}, Reason.NUMERICS_LIMIT),
        ("rocm", {"disable_pass": (V1,)}, Reason.DISABLED),
    ],
)
def test_switched_off(target, switches, reason):
    _, report = run(write("main", SMALL, mask="bias")[0], target, **switches)
    assert [d.reason for d in report.decisions] == [reason]


# --- code generation -----------------------------------------------------------------------------

PROGRAMS = {
    "plain": write("plain", (1, 8, 1, 256, 64, 64, 256), dtype="f16")[0],
    "additive": write("additive", (4, 12, 1, 128, 32, 32, 128), mask="bias", zero=True)[0],
    "causal": write("causal", (1, 8, 1, 512, 128, 128, 512), dtype="f16", mask="causal")[0],
    "grouped": write("grouped", (1, 8, 4, 512, 128, 128, 512), dtype="f16", mask="boolean")[0],
    "dynamic": write("dynamic", (2, 4, 1, 64, 64, 64, 64), dtype="bf16", dynamic=(M,))[0],
}


@pytest.mark.parametrize("target", ["cuda:sm_80", "rocm:gfx942"])
def test_compiles_for(target, tmp_path):
    chosen = targets.parse(target)
    source, middle, fused = (tmp_path / n for n in ("in.mlir", "middle.mlirbc", "fused.mlirbc"))
    source.write_text("\n".join(PROGRAMS.values()), encoding="utf-8")
    flags = [*chosen.flags, "--iree-input-type=none"]
    run_tool(
        "iree-compile",
        [str(source), "--compile-to=global-optimization", *flags, "-o", str(middle)],
        stage="global-optimization",
        timeout=COMPILE_SECONDS,
    )
    anything = f"{V1}{{any-size=true}},{V2}{{any-size=true}}"
    module, report = run(middle.read_text(encoding="utf-8"), target, pipeline=anything)
    assert report.counts() == {V1: 3, V2: 2}
    fused.write_text(str(module), encoding="utf-8")
    program = tmp_path / "out.vmfb"
    run_tool(
        "iree-compile",
        [str(fused), "--compile-from=global-optimization", *flags, "-o", str(program)],
        stage="codegen",
        timeout=COMPILE_SECONDS,
    )
    assert program.stat().st_size > 0
