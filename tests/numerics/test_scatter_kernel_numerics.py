"""Kernels of scatters agree with numpy, window after window, and with PyTorch."""

import dataclasses

import numpy as np
import pytest
import torch

import mlirfuse
from helpers import scatter_text
from helpers.harness import FLOATS
from helpers.scatter_text import Case
from helpers.spread import Runs
from helpers.vector_cases import case, renamed

TARGETS = ("cpu:host", "cpu:x86-64-v3")
PASS = "scatter_vector_kernel"
FIRES = {PASS: 1}

INTEGERS = {f"i{bits}": np.dtype(f"int{bits}") for bits in (8, 16, 32, 64)}


def drawn(form, outside=False):
    """Arguments of a form: small whole numbers, whose sums are exact."""
    rng = np.random.default_rng(7)
    kind = FLOATS.get(form.element) or INTEGERS[form.element]
    updates, destination = (
        rng.integers(-3, 4, shape).astype(kind) for shape in (form.updates, form.shape)
    )
    repeat = not form.unique and form.body != "replace"
    indices = scatter_text.draw_indices(form, 5, repeat=repeat, outside=outside)
    mask = [rng.integers(0, 2, form.batch).astype(bool)] if form.masked else []
    return [updates, indices, *mask, destination]


def reference(form):
    def function(updates, indices, *others):
        *mask, destination = others
        held = mask[0] if mask else None
        return (scatter_text.expected(form, updates, indices, held, destination),)

    return function


def one(name, form):
    """A scatter whose windows are all in bounds: IREE's code writes others elsewhere."""
    computed = form.element if form.element in FLOATS else "f32"
    text = renamed(scatter_text.text(form), name)
    inputs = {"whole": tuple(drawn(form))}
    return case(name, text, inputs, reference(form), FIRES, 4, computed)


FORMS = {
    "elements": Case(body="addf", shape=(9,), batch=(300,)),
    "no_coordinates": Case(body="addf", shape=(9,), batch=(300,), coordinates=False, index="i32"),
    "one_element": Case(body="addf", shape=(1, 1), batch=(5,)),
    "rows": Case(body="addf", shape=(70, 33), batch=(190,)),
    "many_rows": Case(body="addf", shape=(3000, 40), batch=(900,)),
    "wide_rows": Case(body="addf", shape=(60, 2111), batch=(110,)),
    "two_coordinates": Case(body="addf", shape=(5, 4, 3), batch=(40,), dimensions=(0, 1)),
    "turned_coordinates": Case(body="addf", shape=(5, 4, 3), batch=(40,), dimensions=(2, 0, 1)),
    "wide_window": Case(body="mulf", shape=(4, 3, 130), batch=(3, 5)),
    "masked": Case(body="addf", shape=(8, 16), batch=(64,), masked=True),
    "masked_copies": Case(body="replace", shape=(8, 16), batch=(7,), masked=True),
    "copies_f16": Case(body="replace", shape=(12, 9), batch=(8,), element="f16"),
    "maximum_bf16": Case(body="maximumf", shape=(12, 39), batch=(80,), element="bf16"),
    "sums_f16": Case(body="addf", shape=(12, 39), batch=(40,), element="f16"),
    "hypot": Case(body="hypot", shape=(12, 9), batch=(8,), unique=True),
    "counted": Case(body="counted", shape=(12,), batch=(80,)),
    "difference": Case(body="difference", shape=(12, 20), batch=(80,)),
}

CASES = {name: one(name, form) for name, form in FORMS.items()}
RUNS = Runs(CASES, TARGETS, pipeline=PASS)


@pytest.mark.parametrize(("target", "name"), RUNS.parameters)
def test_numerics(target, name):
    RUNS.outcome(target, name).check()


@pytest.mark.parametrize(
    "form",
    [
        Case(body="addf", shape=(9,), batch=(300,)),
        Case(body="addf", shape=(300, 40), batch=(900,)),
        Case(body="addf", shape=(5, 4, 1200), batch=(40,), dimensions=(1, 0)),
        Case(body="addi", shape=(12, 70), batch=(30,), element="i8"),
        Case(body="maxui", shape=(7, 5), batch=(19,), element="i64"),
    ],
    ids=str,
)
def test_windows_out_of_bounds_change_nothing(form, tmp_path):
    path = tmp_path / "scatter.mlir"
    path.write_text(scatter_text.text(form), encoding="utf-8")
    program = mlirfuse.compile(path, target="cpu", cache=False)
    assert program.report.counts()[PASS] == 1
    arguments = drawn(form, outside=True)
    (right,) = reference(form)(*arguments)
    np.testing.assert_array_equal(program(*arguments), right)


def test_reshaped_coordinates(tmp_path):
    """A reshape of indices with coordinates is not computed by the kernel."""
    form = Case(body="addf", shape=(5, 4), batch=(15,), dimensions=(0, 1))
    grid, flat = "tensor<3x5x2xi64>", "tensor<15x2xi64>"
    same = "affine_map<(a, b, c) -> (a, b, c)>"
    reshaped = f"""
  %one = arith.constant 1 : i64
  %empty = tensor.empty() : {grid}
  %h = linalg.generic {{indexing_maps = [{same}, {same}],
      iterator_types = ["parallel", "parallel", "parallel"]}} ins(%g : {grid})
      outs(%empty : {grid}) {{
  ^bb0(%p: i64, %q: i64):
    %s = arith.xori %p, %one : i64
    linalg.yield %s : i64
  }} -> {grid}
  %i = tensor.collapse_shape %h [[0, 1], [2]] : {grid} into {flat}
  %y ="""
    text = scatter_text.text(form).replace(f"%i: {flat}", f"%g: {grid}")
    text = text.replace("\n  %y =", reshaped, 1)
    path = tmp_path / "scatter.mlir"
    path.write_text(text, encoding="utf-8")
    program = mlirfuse.compile(path, target="cpu", cache=False)
    assert program.report.counts()[PASS] == 1
    updates, indices, destination = drawn(form)
    (right,) = reference(form)(updates, indices, destination)
    np.testing.assert_array_equal(
        program(updates, indices.reshape(3, 5, 2) ^ 1, destination), right
    )


@dataclasses.dataclass(frozen=True)
class Model:
    """A function, its arguments, and its kernels."""

    function: object
    arguments: tuple
    kernels: int = 1


def numbers(*shape):
    return torch.randint(-3, 4, shape, generator=torch.Generator().manual_seed(1)).float()


def places(bound, *shape):
    return torch.randint(bound, shape, generator=torch.Generator().manual_seed(2))


MODELS = {
    "sums behind an activation": Model(
        lambda x, i, u: torch.relu(x).index_add(0, i // 2, u),
        (numbers(60, 75), places(60, 130), numbers(130, 75)),
    ),
    "messages of a graph": Model(
        lambda x, a, b: torch.zeros(50, 64).index_add(0, b, x[a]),
        (numbers(50, 64), places(50, 300), places(50, 300)),
    ),
    "sums along a row": Model(
        lambda x, i, u: x.scatter_add(1, i, u),
        (numbers(20, 40), places(40, 20, 30), numbers(20, 30)),
    ),
    "rows of a cache": Model(
        lambda x, i, u: x.index_copy(1, i, u),
        (numbers(4, 64, 16), torch.tensor([9, 3, 60]), numbers(4, 3, 16)),
    ),
    "pairs of indices": Model(
        lambda x, i, u: x.index_put((torch.arange(4)[:, None], i[None]), u, accumulate=True),
        (numbers(4, 64, 16), torch.tensor([9, 3, 9]), numbers(4, 3, 16)),
    ),
    "extremes": Model(
        lambda x, i, u: x.scatter_reduce(0, i, u, "amax"),
        (numbers(50, 7), places(50, 30, 7), numbers(30, 7)),
    ),
    "a histogram": Model(
        lambda i: torch.zeros(30).index_add(0, i, torch.ones(500)), (places(30, 500),)
    ),
    "an operand with other users": Model(
        lambda x, i, u: (torch.relu(x).index_add(0, i, u), torch.relu(x)),
        (numbers(600, 256), places(600, 1300), numbers(1300, 256)),
        2,
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_models(name):
    model = MODELS[name]
    program = mlirfuse.compile(model.function, model.arguments, target="cpu", cache=False)
    assert program.report.counts()[PASS] == 1
    assert len(program.kernels) == model.kernels, [k.name for k in program.kernels]
    for _ in range(2):
        right = model.function(*model.arguments)
        torch.testing.assert_close(program(*model.arguments), right, rtol=0, atol=0)


def test_few_updates_are_left_to_iree():
    """It writes them into the memory of a tensor that nothing else reads."""

    def model(x, w, i, u):
        return (x @ w).index_add(0, i, u)

    arguments = numbers(200, 64), numbers(64, 96), places(200, 3), numbers(3, 96)
    program = mlirfuse.compile(model, arguments, target="cpu", cache=False)
    assert PASS not in program.report.counts()
    torch.testing.assert_close(program(*arguments), model(*arguments))
