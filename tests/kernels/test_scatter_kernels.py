"""Kernels of scatters against numpy, run by Triton's interpreter on the CPU."""

import numpy as np
import pytest
from iree.compiler import ir

from helpers import scatter_text
from helpers.kernel_runner import NUMPY, close, draw, needs_triton, planned, run
from helpers.scatter_text import Case
from mlirfuse.kernels import triton_compiler

pytestmark = needs_triton


def elements(case, shape, seed):
    """Numbers of the element type; those of integers fill their bits."""
    if case.element in NUMPY:
        return draw(shape, case.element, seed)
    kind = np.dtype(case.element.replace("i", "int"))
    return np.random.default_rng(seed).integers(
        np.iinfo(kind).min, np.iinfo(kind).max, shape, kind, endpoint=True
    )


def check(interpreter, case, *, seed=0, outside=False, updates=None, destination=None, exact=False):
    """Compares the kernel of a case with numpy."""
    repeat = not case.unique and case.body != "replace"
    indices = scatter_text.draw_indices(case, seed, repeat=repeat, outside=outside)
    if updates is None:
        updates = elements(case, case.updates, seed + 1)
    if destination is None:
        destination = elements(case, case.shape, seed + 2)
    mask = np.random.default_rng(seed).integers(0, 2, case.batch, np.int8) if case.masked else None
    given = [updates, indices, *([] if mask is None else [mask]), destination]
    (found,) = run(interpreter, scatter_text.text(case), "scatter", given, [case.shape])
    wide = [a.astype(np.float64) if case.element in NUMPY else a for a in (updates, destination)]
    expected = scatter_text.expected(case, wide[0], indices, mask, wide[1])
    if exact or case.element not in NUMPY:
        assert np.array_equal(found, expected, equal_nan=case.element in NUMPY)
    else:
        close(found, expected.astype(np.float64), case.element)


@pytest.mark.parametrize(
    "body",
    [
        *("addf", "mulf", "maximumf", "minimumf", "maxnumf", "difference", "scaled", "counted"),
        *("hypot", "replace"),
    ],
)
def test_combiners_of_floats(interpreter, body):
    check(interpreter, Case(body=body, shape=(7, 33), batch=(19 if body != "replace" else 6,)))


@pytest.mark.parametrize("element", ["i32", "i64"])
@pytest.mark.parametrize(
    "body", ["addi", "muli", "maxsi", "minsi", "maxui", "minui", "andi", "ori", "xori"]
)
def test_combiners_of_integers(interpreter, body, element):
    check(interpreter, Case(body=body, shape=(7, 5), batch=(19,), element=element))


@pytest.mark.parametrize(
    "case",
    [
        Case(body="addf", shape=(9,), batch=(300,)),
        Case(body="addf", shape=(9,), batch=(300,), coordinates=False, index="i32"),
        Case(body="addf", shape=(9, 1), batch=(30,)),
        Case(body="addf", shape=(1, 1), batch=(5,)),
        Case(body="addf", shape=(5, 4, 3), batch=(40,), dimensions=(0, 1)),
        Case(body="addf", shape=(5, 4, 3), batch=(40,), dimensions=(1, 0)),
        Case(body="addf", shape=(5, 4, 3), batch=(40,), dimensions=(2, 0, 1)),
        Case(body="addf", shape=(4, 3, 130), batch=(3, 5)),
        Case(body="mulf", shape=(4, 3, 130), batch=(3, 5), coordinates=False),
        Case(body="addf", shape=(6, 2100), batch=(11,)),
        Case(body="addf", shape=(8, 16), batch=(64,), masked=True),
        Case(body="replace", shape=(8, 16), batch=(7,), masked=True),
        Case(body="addf", shape=(300,), batch=(1,)),
    ],
    ids=str,
)
@pytest.mark.parametrize("outside", [False, True])
def test_shapes(interpreter, case, outside):
    check(interpreter, case, outside=outside and case.body != "replace")


@pytest.mark.parametrize("element", ["f16", "bf16", "f32", "i8", "i16", "i64"])
def test_replaced_elements_of_any_width(interpreter, element):
    check(interpreter, Case(body="replace", shape=(12, 9), batch=(8,), element=element))


@pytest.mark.parametrize("body", ["addf", "mulf", "maximumf", "hypot"])
@pytest.mark.parametrize("element", ["f16", "bf16"])
def test_unique_indices_of_halves(interpreter, body, element):
    check(interpreter, Case(body=body, shape=(12, 9), batch=(8,), element=element, unique=True))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "gfx942"])
@pytest.mark.parametrize(
    ("body", "element"),
    [("addf", "f32"), ("minimumf", "f64"), ("maxui", "i64"), ("hypot", "f32"), ("replace", "i8")],
)
def test_object_code(arch, body, element):
    text = scatter_text.text(Case(body=body, shape=(9, 40), batch=(30,), element=element))
    with ir.Context():
        _, (plan,) = planned(text, "scatter")
        assert triton_compiler.build(plan.program, arch).code


@pytest.mark.parametrize(("element", "vectors"), [("f32", True), ("f64", False), ("i32", False)])
def test_an_instruction_adds_four_adjacent_elements_of_f32(element, vectors):
    body = "addf" if element.startswith("f") else "addi"
    case = Case(body=body, shape=(500, 256), batch=(3000,), element=element)
    with ir.Context():
        _, (plan,) = planned(scatter_text.text(case), "scatter")
        code = triton_compiler.build(plan.program, "sm_90").code
    assert (b".v4.f32" in code) == vectors


@pytest.mark.parametrize("body", ["maximumf", "minimumf"])
@pytest.mark.parametrize("element", ["f32", "f64"])
def test_extremes_of_special_numbers(interpreter, body, element):
    numbers = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -1.5, 1e-42, -1e-42])
    rng = np.random.default_rng(3)
    case = Case(body=body, shape=(60,), batch=(90,), element=element)
    updates, destination = (rng.choice(numbers, n).astype(NUMPY[element]) for n in (90, 60))
    check(interpreter, case, updates=updates, destination=destination, exact=True)


def test_random_cases(interpreter):
    rng = np.random.default_rng(0)
    bodies = ["addf", "mulf", "maximumf", "minimumf", "hypot", "replace"]
    for seed in range(40):
        rank = int(rng.integers(1, 4))
        shape = tuple(int(n) for n in rng.integers(1, 14, rank))
        depth = int(rng.integers(1, rank + 1))
        body = str(rng.choice(bodies))
        batch = tuple(int(n) for n in rng.integers(1, 9, int(rng.integers(1, 3))))
        if body == "replace":
            batch = (int(rng.integers(1, np.prod(shape[:depth]) + 1)),)
        case = Case(
            body=body,
            shape=shape,
            batch=batch,
            dimensions=tuple(int(n) for n in rng.permutation(depth)),
            index=str(rng.choice(["i32", "i64"])),
            coordinates=depth > 1 or bool(rng.integers(2)),
            masked=bool(rng.integers(2)),
        )
        check(interpreter, case, seed=seed, outside=body != "replace")


COLUMNS = """
#id = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>
#one = affine_map<(r) -> (r)>
func.func @main(%u: tensor<{r}x{c}xf32>, %i: tensor<{r}x{c}xi64>, %x: tensor<{r}x{n}xf32>)
    -> tensor<{r}x{n}xf32> {{
  %ef = tensor.empty() : tensor<{r}x{c}xf32>
  %v = linalg.generic {{indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}}
      ins(%u : tensor<{r}x{c}xf32>) outs(%ef : tensor<{r}x{c}xf32>) {{
  ^bb0(%a: f32, %o: f32):
    %t = math.exp %a : f32
    linalg.yield %t : f32
  }} -> tensor<{r}x{c}xf32>
  %flat = tensor.collapse_shape %v [[0, 1]] : tensor<{r}x{c}xf32> into tensor<{rc}xf32>
  %er = tensor.empty() : tensor<{r}xi64>
  %which = linalg.generic {{indexing_maps = [#one], iterator_types = ["parallel"]}}
      outs(%er : tensor<{r}xi64>) {{
  ^bb0(%o: i64):
    %k = linalg.index 0 : index
    %t = arith.index_cast %k : index to i64
    linalg.yield %t : i64
  }} -> tensor<{r}xi64>
  %ei = tensor.empty() : tensor<{r}x{c}xi64>
  %rows = linalg.generic {{indexing_maps = [#row, #id], iterator_types = ["parallel", "parallel"]}}
      ins(%which : tensor<{r}xi64>) outs(%ei : tensor<{r}x{c}xi64>) {{
  ^bb0(%a: i64, %o: i64):
    linalg.yield %a : i64
  }} -> tensor<{r}x{c}xi64>
  %row = tensor.collapse_shape %rows [[0, 1]] : tensor<{r}x{c}xi64> into tensor<{rc}xi64>
  %column = tensor.collapse_shape %i [[0, 1]] : tensor<{r}x{c}xi64> into tensor<{rc}xi64>
  %e = tensor.empty() : tensor<{rc}x2xi64>
  %f = tensor.insert_slice %row into %e[0, 0] [{rc}, 1] [1, 1]
      : tensor<{rc}xi64> into tensor<{rc}x2xi64>
  %g = tensor.insert_slice %column into %f[0, 1] [{rc}, 1] [1, 1]
      : tensor<{rc}xi64> into tensor<{rc}x2xi64>
  %y = iree_linalg_ext.scatter dimension_map = [0, 1] unique_indices(false)
      ins(%flat, %g : tensor<{rc}xf32>, tensor<{rc}x2xi64>) outs(%x : tensor<{r}x{n}xf32>) {{
  ^bb0(%a: f32, %b: f32):
    %t = arith.addf %a, %b : f32
    iree_linalg_ext.yield %t : f32
  }} -> tensor<{r}x{n}xf32>
  return %y : tensor<{r}x{n}xf32>
}}
"""
"""PyTorch's `scatter_add` along the columns, as it is imported, of computed updates."""


@pytest.mark.parametrize(("rows", "columns", "width"), [(20, 40, 7), (1, 1, 1), (3, 130, 5)])
def test_computed_updates_and_coordinates(interpreter, rows, columns, width):
    text = COLUMNS.format(r=rows, c=columns, rc=rows * columns, n=width)
    updates, x = draw((rows, columns), "f32"), draw((rows, width), "f32", 1)
    index = np.random.default_rng(2).integers(0, width, (rows, columns))
    (found,) = run(interpreter, text, "scatter", [updates, index, x], [x.shape])
    expected = x.astype(np.float64)
    places = (np.arange(rows)[:, None], index)
    np.add.at(expected, places, np.exp(updates.astype(np.float64)))
    close(found, expected, "f32")


def test_a_filled_destination(interpreter):
    text = COLUMNS.format(r=4, c=6, rc=24, n=5).replace("%x: tensor", "%unused: tensor")
    text = text.replace(
        "  %ef = ",
        "  %half = arith.constant 0.5 : f32\n  %ex = tensor.empty() : tensor<4x5xf32>\n"
        "  %x = linalg.fill ins(%half : f32) outs(%ex : tensor<4x5xf32>) -> tensor<4x5xf32>\n"
        "  %ef = ",
    )
    updates, index = draw((4, 6), "f32"), np.random.default_rng(2).integers(0, 5, (4, 6))
    (found,) = run(interpreter, text, "scatter", [updates, index], [(4, 5)])
    expected = np.full((4, 5), 0.5)
    np.add.at(expected, (np.arange(4)[:, None], index), np.exp(updates.astype(np.float64)))
    close(found, expected, "f32")
