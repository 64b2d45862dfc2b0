"""Kernels of loops that carry states against float64, run by Triton's interpreter on the CPU."""

import dataclasses
import re

import numpy as np
import pytest
from iree.compiler import ir

import mlirfuse
from helpers.kernel_runner import TARGET, argument_index, close, draw, needs_triton, to_torch
from helpers.recurrence_text import Recurrence, expected, recurrence_text
from mlirfuse.core import NoMatch
from mlirfuse.kernels.calls import LOOP
from mlirfuse.kernels.plan import Plan
from mlirfuse.kernels.recurrence import heuristics
from mlirfuse.kernels.recurrence.analysis import analyze_loop, problem_of
from mlirfuse.kernels.recurrence.family import plan_loop, plan_recurrence
from mlirfuse.structured.ir import ops


def loop_of(module):
    (function,) = ops.functions(module)
    found = [v.operation for b in ops.blocks(function) for v in b.operations]
    return next(op for op in found if op.name == LOOP)


def computed(interpreter, spec, arrays, **changes):
    """The results of the kernel with one tile of columns: the interpreter runs CTA after CTA."""
    torch = interpreter.torch
    with ir.Context():
        module = ir.Module.parse(recurrence_text(spec))
        analysis = analyze_loop(loop_of(module))
        assert not isinstance(analysis, NoMatch | None), analysis
        chosen = heuristics.default_config(problem_of(analysis), TARGET)
        config = dataclasses.replace(chosen, **{"block_columns": 32, **changes})
        plan = plan_recurrence(analysis, TARGET, config)
        assert isinstance(plan, Plan), plan
        inputs = [to_torch(torch, arrays[argument_index(v)]) for v in plan.operands]
        grid = tuple(extent.count(()) for extent in plan.grid)
        spaces = plan.workspaces
    kinds = {"*fp32": torch.float32, "*fp16": torch.float16, "*bf16": torch.bfloat16}
    named = dict(plan.program.arguments)
    shapes = spec.result_shapes
    results = [
        torch.full(shape, float("nan"), dtype=kinds[named[f"y{n}"]])
        for n, shape in enumerate(shapes)
    ]
    given = {name: iter(values) for name, values in (("x", inputs), ("y", results))}
    given["c"] = iter([torch.zeros(w.elements, dtype=torch.int32) for w in spaces if w.zeroed])
    written = [(name, kind) for name, kind in named.items() if name.startswith(("w", "p"))]
    others = [w.elements for w in spaces if not w.zeroed]
    for (name, kind), count in zip(written, others, strict=True):
        space = torch.full((count,), 99, dtype=kinds[kind])
        given[name[0]] = iter([*given.get(name[0], ()), space])
    loaded = interpreter.load(plan.program.source, plan.program.entry)
    with np.errstate(over="ignore"):
        getattr(loaded, plan.program.entry)[grid](*(next(given[name[0]]) for name in named))
    return [result.to(torch.float64).numpy() for result in results]


SPECS = [
    *(Recurrence(cell) for cell in ("lstm", "gru", "gru_before", "rnn", "gate")),
    Recurrence("lstm", dtype="f16", columns=32),
    # Without a contraction: the interpreter cannot compute those of bf16.
    Recurrence("gate", dtype="bf16"),
    Recurrence("gru", rows=(1,), columns=17, backward=True),
    Recurrence("lstm", rows=(), columns=32, steps=1),
    Recurrence("gru_before", rows=(2, 35), columns=20, steps=3),
    Recurrence("gate", rows=(70,), columns=70, dtype="f16", backward=True),
]


PACKED = [
    Recurrence("lstm", rows=(35,), columns=30),
    Recurrence("gru", columns=29, dtype="f16"),
    Recurrence("gru_before", rows=(2, 9), columns=31, steps=3),
]


TILE = {"block_rows": 16, "block_k": 16, "num_warps": 4, "packed": True}
CASES = [*((spec, {}) for spec in SPECS), *((spec, TILE) for spec in PACKED)]


@needs_triton
@pytest.mark.parametrize(("spec", "changes"), CASES, ids=str)
def test_cells(interpreter, spec, changes):
    scale = [1.0, 0.3, 1.0, 1.0]
    arrays = [
        draw(shape, spec.dtype, seed, spread)
        for seed, (shape, spread) in enumerate(zip(spec.shapes, scale, strict=False))
    ]
    found = computed(interpreter, spec, arrays, **changes)
    for one, other in zip(found, expected(spec, *arrays), strict=True):
        close(one, other, spec.dtype if spec.dtype != "f32" else "f16")
        assert spec.dtype != "f32" or np.abs(one - other).max() < 2e-5


@pytest.mark.parametrize(("columns", "dtype"), [(615, "f32"), (612, "f32"), (628, "f16")])
def test_weights_are_packed_where_vectors_do_not_divide_their_rows(columns, dtype):
    """Each CTA copies its tiles before the iterations; rows of the states are whole vectors."""
    plan = planned(recurrence_text(Recurrence("gru", rows=(40,), columns=columns, dtype=dtype)))
    size = {"f32": 4, "f16": 2}[dtype]
    aligned = columns * size % 16 == 0
    before, _, inside = plan.program.source.partition("for step in")
    assert ("tl.store(q0" in before) is not aligned
    assert ("tl.load(q0" in inside) is not aligned
    pitch = -(-columns * size // 16) * 16 // size
    assert plan.workspaces[0].elements == 2 * 40 * pitch
    copies = 0 if aligned else 3 * 20 * 32 * 640  # of all tiles of columns, once for all rows
    assert sum(space.elements for space in plan.workspaces[1:-1]) == copies


EXPONENTIAL = """\
%e = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>,
  affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
  ins(%h : tensor<40x615xf32>) outs(%state : tensor<40x615xf32>) {
  ^bb0(%a: f32, %o: f32): %z = math.exp %a : f32 linalg.yield %z : f32 } -> tensor<40x615xf32>
"""


@pytest.mark.parametrize(("computed", "pitch"), [(False, 616), (True, 615)])
def test_an_operand_computed_from_a_state_has_no_padding(computed, pitch):
    """Zeros behind the columns of a state may be other numbers in it."""
    text = recurrence_text(Recurrence("rnn", rows=(40,), columns=615))
    if computed:
        assert "%v4_e =" in text
        text = text.replace("%v4_e =", f"{EXPONENTIAL}%v4_e =").replace("ins(%h,", "ins(%e,")
    plan = planned(text)
    assert f"a0_mask = a0 < {pitch}" in plan.program.source
    assert plan.workspaces[0].elements == 2 * 40 * pitch
    assert "tl.store(q0" in plan.program.source


def planned(text):
    with ir.Context():
        module = ir.Module.parse(text)
        plan = plan_loop(loop_of(module), TARGET)
        return plan.detail if isinstance(plan, NoMatch) else plan


@pytest.mark.parametrize(
    ("old", "new", "detail"),
    [
        ("arith.addi %step, %i0", "arith.addi %step, %i1", "not every slice"),
        ("arith.addi %step, %i0", "arith.muli %step, %i0", "several shapes"),
        ("%end step", "%given step", None),
    ],
)
def test_other_loops_are_refused(old, new, detail):
    text = recurrence_text(Recurrence("rnn")).replace("main(", "main(%given: index, ")
    assert old in text
    found = planned(text.replace(old, new))
    assert found is None if detail is None else detail in str(found)


def test_rows_share_no_counter():
    """Rows do not depend on each other: those of one tile wait for each other alone."""
    plan = planned(recurrence_text(Recurrence("lstm", rows=(200,), columns=160)))
    counters = plan.workspaces[-1]
    assert counters.zeroed
    assert counters.elements == 13
    assert plan.grid[0].count(()) == 13 * 5


@pytest.mark.parametrize(("cell", "columns"), [("rnn", 128), ("gru", 60), ("lstm", 60)])
def test_a_cta_holds_the_weights_of_a_small_cell_for_one_row(cell, columns):
    """Each weight is loaded once, before the iterations."""
    plan = planned(recurrence_text(Recurrence(cell, rows=(5,), columns=columns)))
    assert plan.grid[0].count(()) == 5
    assert not any(workspace.zeroed for workspace in plan.workspaces)
    before, _, inside = plan.program.source.partition("for step in")
    products = {"rnn": 1, "gru": 3, "lstm": 4}[cell]
    assert len(re.findall(r"= tl\.reshape", before)) == products
    assert "tl.dot" not in inside
    assert not re.search(r"tl\.load\(.*b0", inside)


@pytest.mark.parametrize(("cell", "columns", "tiles"), [("gru", 417, 53), ("lstm", 300, 38)])
def test_ctas_that_share_a_row_hold_the_weights_of_their_columns(cell, columns, tiles):
    """They send each other words with the number of their iteration, and share no counter."""
    plan = planned(recurrence_text(Recurrence(cell, rows=(3,), columns=columns)))
    assert plan.grid[0].count(()) == 3 * tiles
    assert all(space.zeroed and space.element_type == "i64" for space in plan.workspaces)
    assert {space.elements for space in plan.workspaces} == {2 * 3 * columns}
    _, _, inside = plan.program.source.partition("for step in")
    assert "recurrence.meet" not in inside
    assert "(step + 2), column" in inside
    assert "tl.dot" not in inside
    assert not re.search(r"tl\.load\(.*b0", inside)


@pytest.mark.parametrize(("cell", "settled"), [("rnn", True), ("lstm", False)])
def test_the_state_of_one_contraction_is_settled(cell, settled):
    """Triton 3.6 computes the hyperbolic tangents of all columns in each thread otherwise."""
    plan = planned(recurrence_text(Recurrence(cell, rows=(5,), columns=48)))
    _, _, inside = plan.program.source.partition("for step in")
    assert ("recurrence.settled" in inside) is settled


def test_each_thread_receives_words_of_its_own():
    """Two threads with the same word may see it at different times."""
    plan = planned(recurrence_text(Recurrence("rnn", rows=(2,), columns=648)))
    sizes = re.findall(r"w0_now = .*tl\.arange\(0, (\d+)\)", plan.program.source)
    assert sizes
    assert all(int(size) >= 32 * plan.program.num_warps for size in sizes)


def test_the_weights_of_a_wide_cell_are_read_from_caches():
    plan = planned(recurrence_text(Recurrence("lstm", rows=(1,), columns=1024)))
    assert plan.grid[0].count(()) == 64
    _, _, inside = plan.program.source.partition("for step in")
    assert re.search(r"tl\.load\(.*b0", inside)


def test_one_cta_of_all_columns_waits_for_none():
    plan = planned(recurrence_text(Recurrence("gru", rows=(8,), columns=40)))
    assert not any(workspace.zeroed for workspace in plan.workspaces)
    assert "recurrence.meet" not in plan.program.source


def test_a_gate_without_contraction_has_no_workspace():
    plan = planned(recurrence_text(Recurrence("gate", rows=(4,), columns=4096)))
    assert plan.workspaces == ()


def test_more_tiles_than_run_at_a_time_are_refused():
    found = planned(recurrence_text(Recurrence("rnn", columns=16384)))
    assert "wait for each other" in found


@needs_triton
@pytest.mark.parametrize("backward", [False, True])
def test_layers_of_pytorch_are_one_kernel_for_all_steps(backward):
    torch = pytest.importorskip("torch")
    layer = torch.nn.GRU(16, 24, bidirectional=backward).eval()
    module = mlirfuse.compile(layer, (torch.zeros(9, 3, 16),), target="cuda:sm_90", cache=False)
    names = [kernel.name for kernel in module.report.kernels]
    assert names.count("recurrence_kernel") == 1 + backward
    assert all(kernel.calls == 1 for kernel in module.report.kernels)


@needs_triton
def test_scans_of_jax_are_one_kernel():
    jax = pytest.importorskip("jax")
    weights = np.linspace(-0.1, 0.1, 24 * 24, dtype=np.float32).reshape(24, 24)

    def program(xs):
        def step(state, x):
            state = jax.numpy.tanh(x + state @ weights)
            return state, state

        return jax.lax.scan(step, jax.numpy.zeros((3, 24)), xs)

    xs = np.zeros((9, 3, 24), np.float32)
    module = mlirfuse.compile(program, (xs,), target="cuda:sm_90", cache=False)
    assert [kernel.name for kernel in module.report.kernels] == ["recurrence_kernel"]
