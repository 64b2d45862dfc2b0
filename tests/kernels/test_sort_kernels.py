"""Kernels of sorts against numpy, run by Triton's interpreter on the CPU."""

import random

import numpy as np
import pytest
from iree.compiler import ir

from helpers import sort_text
from helpers.kernel_runner import TARGET, needs_triton, planned, run
from helpers.sort_text import Case
from mlirfuse.core import NoMatch, Reason
from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.sort import heuristics
from mlirfuse.kernels.sort.problem import SortConfig, SortProblem
from mlirfuse.kernels.sort.runs import first_candidates
from mlirfuse.structured.recognize import orders

pytestmark = needs_triton

ELEMENTS = ("f32", "f16", "bf16", "i8", "i16", "i32")


def check(interpreter, case, seed=0):
    x = sort_text.elements(case, seed, subnormal=True)
    (found,) = run(interpreter, sort_text.text(case), "sort", [x], [case.result])
    np.testing.assert_array_equal(found, sort_text.expected(case, x), str(case))


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("count", [0, 5])
def test_element_types(interpreter, element, descending, count):
    check(interpreter, Case((3, 67), element=element, descending=descending, count=count))


@pytest.mark.parametrize(
    "case",
    [
        Case((40, 5), 0),
        Case((3, 20, 7), 1),
        Case((2, 3, 4, 33), 0),
        Case((2, 3, 33, 2), 2, count=8),
        Case((300,)),
        Case((600,), count=2),
        Case((70, 2)),
        Case((2, 1024), element="bf16"),
    ],
    ids=str,
)
def test_shapes(interpreter, case):
    check(interpreter, case)


def check_with_users(interpreter, case):
    """The indices as i64, the sorted elements, and those of another tensor along the indices."""
    x = sort_text.elements(case, 3, subnormal=False)
    y = np.arange(x.size, dtype=np.float32).reshape(x.shape)
    results = [case.result] * 3
    indices, values, others = run(
        interpreter, sort_text.text_with_users(case), "sort", [x, y], results
    )
    places = sort_text.expected(case, x).astype(np.int64)
    np.testing.assert_array_equal(indices, places)
    sorted_x = np.take_along_axis(x, places, case.axis).astype(np.float64)
    np.testing.assert_array_equal(values, sorted_x)
    np.testing.assert_array_equal(others, np.take_along_axis(y, places, case.axis))


@pytest.mark.parametrize(
    "case",
    [
        Case((3, 67), element="f16", count=5, descending=True),
        Case((40, 5), 0, element="i32"),
        Case((2, 3, 33, 2), 2, element="bf16", count=8),
    ],
    ids=str,
)
def test_gathers_along_the_indices(interpreter, case):
    check_with_users(interpreter, case)


@pytest.fixture
def short_networks(monkeypatch):
    """Networks of at most 16 elements: longer rows are merged from chunks."""
    monkeypatch.setattr(heuristics, "MAX_COLUMNS", 16)
    monkeypatch.setattr(heuristics, "MIN_CHUNK_COLUMNS", 4)


@pytest.mark.parametrize(
    ("case", "width"),
    [
        (Case((2, 67)), 2),
        (Case((2, 67)), 8),
        (Case((1, 64), descending=True, element="f16"), 4),
        (Case((2, 17), element="i8"), 16),
        (Case((100, 2), 0, element="bf16", descending=True), 4),
        (Case((2, 50, 2), 1, element="i16"), 2),
        (Case((331,), element="i32", descending=True), 4),
        # The first elements: fewer than a chunk has, as many, more, one less than all.
        (Case((2, 133), count=5, descending=True), 2),
        (Case((2, 133), count=5, descending=True), 8),
        (Case((90, 2), 0, count=16, element="f16"), 4),
        (Case((133,), count=70, descending=True, element="bf16"), 4),
        (Case((133,), count=132, element="i16"), 2),
    ],
    ids=str,
)
def test_long_rows(interpreter, short_networks, monkeypatch, case, width):
    monkeypatch.setattr(heuristics, "MERGE_WIDTHS", (width,))
    check(interpreter, case)


@pytest.fixture
def selection(monkeypatch):
    """Chunks of three tiles of eight elements each, of which CTAs keep the first ones."""
    config = SortConfig(1, 1, 24, 2, tile_columns=8)
    monkeypatch.setattr(heuristics, "choose_config", lambda problem, target: config)


@pytest.mark.parametrize(
    "case",
    [
        Case((2, 133), count=4, descending=True),
        Case((70, 2), 0, count=3, element="f16"),
        Case((97,), count=2, element="bf16", descending=True),
        Case((2, 50), count=4, element="i8"),
        Case((49,), count=4, element="i32", descending=True),
    ],
    ids=str,
)
def test_first_elements_of_long_chunks(interpreter, selection, case):
    check(interpreter, case)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("steps", [np.arange, np.zeros, lambda n: -np.arange(n)])
def test_candidates_of_ordered_rows(interpreter, selection, steps, descending):
    """All elements are candidates, of each tile again, or only the first ones."""
    case = Case((2, 72), count=3, descending=descending)
    x = np.broadcast_to(steps(72).astype(np.float32), case.shape).copy()
    (found,) = run(interpreter, sort_text.text(case), "sort", [x], [case.result])
    np.testing.assert_array_equal(found, sort_text.expected(case, x))


@pytest.fixture
def limited(monkeypatch):
    """Chunks of three tiles of 32 elements each, whose least ones are more than those selected."""
    config = SortConfig(1, 1, 96, 2, tile_columns=32)
    monkeypatch.setattr(heuristics, "choose_config", lambda problem, target: config)


@pytest.mark.parametrize(
    "case",
    [
        Case((2, 333), count=4, descending=True),
        Case((197, 2), 0, count=3, element="f16"),
        Case((1, 193), count=8, element="bf16", descending=True),
        Case((197,), count=2, element="i32"),
    ],
    ids=str,
)
def test_limits_of_least_elements(interpreter, limited, case):
    check(interpreter, case)


@pytest.mark.parametrize("count", [2, 8])
@pytest.mark.parametrize(
    "drawn",
    [
        np.arange,
        np.zeros,
        lambda n: -np.arange(n),
        lambda n: np.arange(n) % 32,
        lambda n: np.full(n, np.inf),
    ],
)
def test_limits_of_ordered_rows(interpreter, limited, drawn, count):
    """Many candidates, where the first elements are all in one part of the chunk, and few."""
    case = Case((2, 180), count=count)
    x = np.broadcast_to(np.asarray(drawn(180), np.float32), case.shape).copy()
    (found,) = run(interpreter, sort_text.text(case), "sort", [x], [case.result])
    np.testing.assert_array_equal(found, sort_text.expected(case, x))


@pytest.mark.parametrize(
    ("count", "tile", "candidates"), [(8, 256, 32), (5, 32, 32), (1, 8, 8), (9, 32, 0)]
)
def test_candidates_of_a_short_network(count, tile, candidates):
    assert first_candidates(count, tile) == candidates


def test_a_chunk_of_whole_rows_is_not_taken(interpreter, limited):
    """Its kernel leaves keys to another one that merges, and there is none."""
    check(interpreter, Case((2, 90), count=4))


def test_gathers_of_long_rows(interpreter, short_networks):
    check_with_users(interpreter, Case((2, 133), element="f16", count=9, descending=True))


def test_gathers_of_selections(interpreter, limited):
    check_with_users(interpreter, Case((2, 333), count=4, descending=True))


@pytest.mark.parametrize("number", range(8))
def test_random_long_rows(interpreter, short_networks, number):
    check(interpreter, drawn(number, columns=300, outer=2), number)


def test_long_row_without_shorter_networks(interpreter):
    check(interpreter, Case((2500,), element="f16", count=3))


def test_equal_elements_of_chunks_stay_in_order(interpreter, short_networks):
    case = Case((2, 100))
    x = np.zeros(case.shape, np.float32)
    (found,) = run(interpreter, sort_text.text(case), "sort", [x], [case.result])
    np.testing.assert_array_equal(found, np.broadcast_to(np.arange(100), case.shape))


def check_values(interpreter, case, seed=0):
    """The sorted elements alone, whose NaNs are one, and whose zeros are equal."""
    x = sort_text.elements(case, seed, subnormal=True)
    (found,) = run(interpreter, sort_text.values_alone(case), "sort", [x], [case.result])
    places = sort_text.expected(case, x).astype(np.int64)
    sorted_x = np.take_along_axis(x, places, case.axis).astype(np.float64)
    np.testing.assert_array_equal(found, sorted_x, str(case))


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("descending", [False, True])
def test_sorted_elements_alone(interpreter, element, descending):
    check_values(interpreter, Case((3, 67), element=element, descending=descending))


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("width", [2, 4])
def test_sorted_elements_of_long_rows(interpreter, short_networks, monkeypatch, element, width):
    monkeypatch.setattr(heuristics, "MERGE_WIDTHS", (width,))
    for descending in (False, True):
        check_values(interpreter, Case((2, 133), element=element, descending=descending))
    check_values(interpreter, Case((2, 90, 3), 1, element=element), 1)


@pytest.mark.parametrize("value", [0.0, 1.0, np.nan])
def test_equal_elements_without_indices_have_a_place_each(interpreter, short_networks, value):
    case = Case((2, 100))
    x = np.full(case.shape, value, np.float32)
    (found,) = run(interpreter, sort_text.values_alone(case), "sort", [x], [case.result])
    np.testing.assert_array_equal(found, x)


@pytest.mark.parametrize(
    ("module", "case", "alone", "wide"),
    [
        (sort_text.values_alone, Case((4, 300)), True, False),
        (sort_text.values_alone, Case((4, 300), element="f16"), False, False),
        (sort_text.values_alone, Case((4, 300), count=8), False, True),
        (sort_text.text, Case((4, 300)), False, True),
    ],
)
def test_keys_alone_are_32_bits(module, case, alone, wide):
    with ir.Context(), ir.Location.unknown():
        _, (plan,) = planned(module(case), "sort")
        assert plan.problem.keys_alone == alone
        assert ("tl.int64" in plan.program.source) == wide


def drawn(number, columns=130, outer=12):
    """A random case."""
    chance = random.Random(number)
    shape = tuple(chance.randint(2, outer) for _ in range(chance.randint(0, 2)))
    dim = chance.randint(0, len(shape))
    size = chance.randint(2, columns)
    return Case(
        (*shape[:dim], size, *shape[dim:]),
        dim,
        chance.choice(ELEMENTS),
        chance.random() < 0.5,
        chance.choice([0, chance.randint(2, size)]),
    )


@pytest.mark.parametrize("number", range(24))
def test_random_cases(interpreter, number):
    check(interpreter, drawn(number), number)


@pytest.mark.parametrize("broken", ["", "nan", "unstable", "itself", "positions", "init"])
@pytest.mark.parametrize("descending", [False, True])
def test_another_order_is_no_sort(broken, descending):
    assert bool(read(Case((3, 8), broken=broken, descending=descending))) == (not broken)


def test_unsigned_comparisons_are_no_sort():
    assert not read(Case((3, 8), element="i32", broken="unsigned"))


def read(case):
    """The order that the last sum of a module is recognized as."""
    with ir.Context():
        module = ir.Module.parse(sort_text.text(case))
        block = module.body.operations[0].regions[0].blocks[0]
        (*_, last) = (op.operation for op in block.operations if op.operation.name == orders.ROOT)
        found = orders.order(last)
        return found and (found.dimension, found.axes, found.descending, found.count)


def test_recognized_order():
    assert read(Case((3, 8, 5), 1, descending=True, count=4)) == (1, (0, 1, 2), True, 4)


def refusal(case):
    """The refusal of the group of a module's sort; its plan if there is none."""
    from mlirfuse.kernels.sort.analysis import analyze_order
    from mlirfuse.kernels.sort.family import plan_sort

    with ir.Context():
        module = ir.Module.parse(sort_text.text(case))
        block = module.body.operations[0].regions[0].blocks[0]
        (*_, last) = (op.operation for op in block.operations if op.operation.name == orders.ROOT)
        found = analyze_order(orders.order(last))
        return found if isinstance(found, NoMatch) else plan_sort(found, TARGET)


def test_refusals_have_reasons():
    assert refusal(Case((3, 8), element="i64")).reason == Reason.ELEMENT_TYPE
    longest = heuristics.MAX_WARP_COLUMNS
    assert len(refusal(Case((2, longest))).kernels()) == 1
    assert len(refusal(Case((2, longest + 1))).kernels()) > 1


def test_configurations_are_computed():
    """Long rows have a CTA each; short ones share one where there are enough for every SM."""
    assert heuristics.default_config(SortProblem(2283, 1673, 1673), TARGET).block_rows == 1
    assert heuristics.default_config(SortProblem(1 << 16, 32, 32), TARGET).block_rows > 1
    assert heuristics.default_config(SortProblem(4, 32, 32), TARGET).block_rows == 1


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "gfx942"])
@pytest.mark.parametrize(
    "case",
    [
        Case((64, 40), 0),
        Case((8, 40), element="f16", count=8),
        Case((2, 2100), element="f16", count=8),
    ],
    ids=str,
)
def test_object_code(case, arch):
    with ir.Context():
        _, (plan,) = planned(sort_text.text(case), "sort")
        for step in plan.kernels():
            assert triton_compiler.build(step.program, arch).code


def test_configurations_of_long_rows_are_computed():
    """Many elements are merged by twos, few ones in fewer kernels."""
    many = heuristics.default_config(SortProblem(4096, 1 << 14, 1 << 14), TARGET)
    first = heuristics.default_config(SortProblem(8, 1 << 17, 16), TARGET)
    assert many.merge_width < first.merge_width
    assert heuristics.configs(SortProblem(1, 1 << 15, 9), TARGET)[1:]


@pytest.mark.parametrize(("rows", "columns"), [(1024, 50257), (64, 131072), (1, 1 << 22)])
def test_few_elements_are_selected_tile_by_tile(rows, columns):
    few = heuristics.default_config(SortProblem(rows, columns, 50), TARGET)
    assert few.tile_columns
    assert few.chunk_columns % few.tile_columns == 0
    assert few.chunk_columns < columns
    assert rows * -(-columns // few.chunk_columns) >= TARGET.gpu.num_sms
    most = heuristics.default_config(SortProblem(rows, columns, columns // 2), TARGET)
    assert not most.tile_columns
