"""Elements of tensors as scalar expressions over other tensors' elements."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from iree.compiler import ir

from mlirfuse.structured.expr import activations, arithmetic, comparison, expansion, nodes
from mlirfuse.structured.expr import expressions as ex
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize import norms

SECONDS = 2.0
"""Time limit, far above that of a bounded walk and far below that of 2^60 visits."""

MAPS = """
#id = affine_map<(d0, d1) -> (d0, d1)>
#t = affine_map<(d0, d1) -> (d1, d0)>
#row = affine_map<(d0, d1) -> (d0)>
#col = affine_map<(d0, d1) -> (d1)>
#zero = affine_map<(d0, d1) -> (d0, 0)>
#none = affine_map<(d0, d1) -> ()>
"""

PARALLEL = 'iterator_types = ["parallel", "parallel"]'
REDUCTION = 'iterator_types = ["parallel", "reduction"]'


class Parsed:
    """The arguments and results of the first function of a module; values do not keep it alive."""

    def __init__(self, text: str) -> None:
        self.module = ir.Module.parse(MAPS + text, ir.Context())
        self.block = ops.functions(self.module)[0].regions[0].blocks[0]
        self.arguments = list(self.block.arguments)
        terminator = self.block.operations[len(self.block.operations) - 1].operation
        self.results = list(terminator.operands)

    @property
    def result(self) -> ir.Value:
        return self.results[0]


def function(body: str, arguments: str, result: str, kind: str = "tensor<4x8xf32>") -> Parsed:
    types = ", ".join([kind] * (result.count(",") + 1))
    return Parsed(
        f"func.func @f({arguments}) -> ({types}) {{\n{body}\n  return {result} : {types}\n}}"
    )


def elementwise(name: str, operands: str, types: str, maps: str, body: str, out: str) -> str:
    """One elementwise generic over two loops; the body's arguments are %a, %b, ..., %o."""
    count = len(types.split(", "))
    scalars = [
        t.removeprefix("tensor<").removesuffix(">").split("x")[-1] for t in types.split(", ")
    ]
    arguments = ", ".join(f"%{'abcd'[i]}: {scalars[i]}" for i in range(count))
    element = out.removeprefix("tensor<").removesuffix(">").split("x")[-1]
    sizes = "" if "?" not in out else "%n"
    return f"""
  %{name}_e = tensor.empty({sizes}) : {out}
  %{name} = linalg.generic {{indexing_maps = [{maps}], {PARALLEL}}}
      ins({operands} : {types}) outs(%{name}_e : {out}) {{
  ^bb0({arguments}, %o: {element}):
    {body}
  }} -> {out}"""


def reduction(name: str, operand: str, combiner: str = "arith.addf", init: str = "0.0") -> str:
    return f"""
  %{name}_i = arith.constant {init} : f32
  %{name}_e = tensor.empty() : tensor<4xf32>
  %{name}_f = linalg.fill ins(%{name}_i : f32) outs(%{name}_e : tensor<4xf32>) -> tensor<4xf32>
  %{name} = linalg.generic {{indexing_maps = [#id, #row], {REDUCTION}}}
      ins({operand} : tensor<4x8xf32>) outs(%{name}_f : tensor<4xf32>) {{
  ^bb0(%a: f32, %o: f32):
    %r = {combiner} %o, %a : f32
    linalg.yield %r : f32
  }} -> tensor<4xf32>"""


X = "%x: tensor<4x8xf32>"


# --- definitions ---------------------------------------------------------------------------------


def test_define_looks_through_broadcasts_and_transposes():
    body = elementwise("t", "%x", "tensor<8x4xf32>", "#t, #id", "linalg.yield %a : f32", T48)
    body += elementwise("b", "%t", T48, "#zero, #id", "linalg.yield %a : f32", T48)
    f = function(body, "%x: tensor<8x4xf32>", "%b")
    assert ex.define(ex.start(f.result)) == nodes.Element(f.arguments[0], (None, 0))


T48 = "tensor<4x8xf32>"


def test_define_stops_at_an_unknown_op():
    f = function("  %y = math.absf %x : tensor<4x8xf32>", X, "%y")
    assert ex.define(ex.start(f.result)) == ex.start(f.result)


def test_collapse_and_expand_cancel():
    f = function(
        """
  %c = tensor.collapse_shape %x [[0, 1]] : tensor<4x8xf32> into tensor<32xf32>
  %e = tensor.expand_shape %c [[0, 1]] output_shape [4, 8] : tensor<32xf32> into tensor<4x8xf32>""",
        X,
        "%e",
    )
    assert ex.define(ex.start(f.result)) == ex.start(f.arguments[0])


def test_another_split_does_not_cancel():
    f = function(
        """
  %c = tensor.collapse_shape %x [[0, 1]] : tensor<8x4xf32> into tensor<32xf32>
  %e = tensor.expand_shape %c [[0, 1]] output_shape [4, 8] : tensor<32xf32> into tensor<4x8xf32>""",
        "%x: tensor<8x4xf32>",
        "%e",
    )
    linear = nodes.Lin((0, 1), (4, 8))
    expected = (nodes.Part(linear, 0, (8, 4)), nodes.Part(linear, 1, (8, 4)))
    assert ex.define(ex.start(f.result)) == nodes.Element(f.arguments[0], expected)


def test_two_dynamic_sizes_of_one_split_are_not_read_through():
    f = function(
        "  %e = tensor.expand_shape %x [[0, 1]] output_shape [%m, %n] : "
        "tensor<?xf32> into tensor<?x?xf32>",
        "%x: tensor<?xf32>, %m: index, %n: index",
        "%e",
        "tensor<?x?xf32>",
    )
    assert ex.define(ex.start(f.result)) == ex.start(f.result)


def test_collapse_to_rank_0_has_zero_indices():
    f = function(
        "  %c = tensor.collapse_shape %x [] : tensor<1x1xf32> into tensor<f32>",
        "%x: tensor<1x1xf32>",
        "%c",
        "tensor<f32>",
    )
    assert ex.define(ex.start(f.result)) == nodes.Element(f.arguments[0], (None, None))


sizes = st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple)


@given(sizes)
def test_delinearize_inverts_linearize(radix):
    parts = tuple(None if size == 1 else number for number, size in enumerate(radix))
    linear = expansion.linearize(parts, radix)
    assert tuple(expansion.delinearize(linear, d, radix) for d in range(len(radix))) == parts


@given(sizes)
def test_linearize_inverts_delinearize(radix):
    parts = tuple(expansion.delinearize(7, d, radix) for d in range(len(radix)))
    unit = all(size == 1 for size in radix)
    assert expansion.linearize(parts, radix) == (None if unit else 7)


def test_an_op_is_expanded_once(monkeypatch):
    looked: list[nodes.Element] = []
    step = expansion._step
    monkeypatch.setattr(
        expansion, "_step", lambda op, element: looked.append(element) or step(op, element)
    )
    f = chain(20)
    element = ex.start(f.result)
    assert comparison.same(element, element)
    for _ in range(3):
        list(arithmetic.factors(element))
    assert len(looked) == len(set(looked)) <= 22


# --- numbers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("  %c = arith.constant dense<2.5> : tensor<4x8xf32>", 2.5),
        (
            "  %s = arith.constant 2.5 : f32\n  %e = tensor.empty() : tensor<4x8xf32>\n"
            "  %c = linalg.fill ins(%s : f32) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>",
            2.5,
        ),
        (
            elementwise("c", "%x", T48, "#id, #id", "%k = arith.constant 3 : i32\n"
            "    %r = arith.sitofp %k : i32 to f32\n    linalg.yield %r : f32", T48),
            3,
        ),
        (
            "  %z = arith.constant dense<1.5> : tensor<f32>"
            + elementwise("c", "%z", "tensor<f32>", "#none, #id", "linalg.yield %a : f32", T48),
            1.5,
        ),
        ("  %c = math.absf %x : tensor<4x8xf32>", None),
    ],
)  # fmt: skip
def test_number(body, expected):
    f = function(body, X, "%c")
    assert ex.number(ex.start(f.result)) == expected


GLOBAL = """
util.global private {mutable} @n = dense<8.0> : tensor<f32>
util.func public @f(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {{
  %n = util.global.load {immutable} @n : tensor<f32>
{body}
  util.return %c : tensor<4x8xf32>
}}
"""


@pytest.mark.parametrize(
    ("mutable", "immutable", "expected"), [("", "immutable", 8.0), ("mutable", "", None)]
)
def test_number_of_a_global(mutable, immutable, expected):
    body = elementwise("c", "%n", "tensor<f32>", "#none, #id", "linalg.yield %a : f32", T48)
    f = Parsed(GLOBAL.format(mutable=mutable, immutable=immutable, body=body))
    assert ex.number(ex.start(f.result)) == expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("arith.cmpf ogt, %eight, %seven", 8.0),
        ("arith.cmpf oge, %eight, %seven", 8.0),
        ("arith.cmpf olt, %eight, %seven", 7.0),
        ("arith.cmpf ole, %eight, %seven", 7.0),
        ("arith.cmpf oeq, %eight, %seven", 7.0),
        ("arith.cmpf ogt, %eight, %a", None),
        ("arith.cmpf uno, %eight, %seven", None),
    ],
)
def test_decided_selections_are_passed_over(condition, expected):
    body = elementwise(
        "c",
        "%x",
        T48,
        "#id, #id",
        f"""%eight = arith.constant 8.0 : f32
    %seven = arith.constant 7.0 : f32
    %p = {condition} : f32
    %r = arith.select %p, %eight, %seven : f32
    linalg.yield %r : f32""",
        T48,
    )
    f = function(body, X, "%c")
    assert ex.number(ex.start(f.result)) == expected


def test_a_scalar_extracted_from_a_constant_is_known():
    body = "  %t = arith.constant dense<true> : tensor<i1>\n  %p = tensor.extract %t[] : tensor<i1>"
    body += elementwise(
        "c",
        "%x",
        T48,
        "#id, #id",
        "%one = arith.constant 1.0 : f32\n    %r = arith.select %p, %one, %a : f32\n"
        "    linalg.yield %r : f32",
        T48,
    )
    f = function(body, X, "%c")
    assert ex.number(ex.start(f.result)) == 1.0


# --- sources -------------------------------------------------------------------------------------


def test_source_passes_casts_and_broadcasts():
    body = elementwise(
        "w",
        "%x",
        "tensor<8xf16>",
        "#col, #id",
        "%r = arith.extf %a : f16 to f32\n    linalg.yield %r : f32",
        T48,
    )
    f = function(body, "%x: tensor<8xf16>", "%w")
    assert ex.source(ex.start(f.result)) == nodes.Element(f.arguments[0], (1,))
    assert ex.loops(ex.start(f.result)) == {1}


def test_source_passes_a_broadcast_of_a_unit_dimension():
    body = elementwise(
        "w", "%x", "tensor<4x1xf32>", "#zero, #id", "linalg.yield %a : f32", T48
    )  # fmt: skip
    f = function(body, "%x: tensor<4x1xf32>", "%w")
    assert ex.source(ex.start(f.result)) == nodes.Element(f.arguments[0], (0, None))


def test_source_ends_at_transposes_and_reshapes():
    body = elementwise("t", "%x", "tensor<8x4xf32>", "#t, #id", "linalg.yield %a : f32", T48)
    f = function(body, "%x: tensor<8x4xf32>", "%t")
    assert ex.source(ex.start(f.result)) == ex.start(f.result)
    f = function(
        "  %e = tensor.expand_shape %x [[0, 1]] output_shape [4, 8] :"
        " tensor<32xf32> into tensor<4x8xf32>",
        "%x: tensor<32xf32>",
        "%e",
    )
    assert ex.source(ex.start(f.result)) == ex.start(f.result)


# --- comparison ----------------------------------------------------------------------------------


def product(name: str, left: str, right: str, maps: str = "#id, #id, #id") -> str:
    return elementwise(
        name, f"{left}, {right}", f"{T48}, {T48}", maps,
        "%r = arith.mulf %a, %b : f32\n    linalg.yield %r : f32", T48,
    )  # fmt: skip


def compare(body: str, arguments: str, left: str, right: str) -> bool:
    f = function(body, arguments, f"{left}, {right}")
    return comparison.same(ex.start(f.results[0]), ex.start(f.results[1]))


TWO = f"{X}, %y: tensor<4x8xf32>"


def test_duplicated_computations_are_the_same():
    assert compare(product("p", "%x", "%y") + product("q", "%x", "%y"), TWO, "%p", "%q")


def test_operands_are_compared_in_order():
    assert not compare(product("p", "%x", "%y") + product("q", "%y", "%x"), TWO, "%p", "%q")


def test_other_ops_predicates_types_and_numbers_differ():
    def body(name: str, lines: str) -> str:
        return elementwise(
            name, "%x", T48, "#id, #id", f"{lines}\n    linalg.yield %r : f32", T48
        )  # fmt: skip

    exp = "%r = math.exp %a : f32"
    log = "%r = math.log %a : f32"
    assert not compare(body("p", exp) + body("q", log), X, "%p", "%q")
    select = (
        "%k = arith.constant {k} : f32\n    %c = arith.cmpf {p}, %a, %k : f32\n"
        "    %r = arith.select %c, %a, %k : f32"
    )
    first = body("p", select.format(k="1.0", p="ogt"))
    assert compare(first + body("q", select.format(k="1.0", p="ogt")), X, "%p", "%q")
    assert not compare(first + body("q", select.format(k="2.0", p="ogt")), X, "%p", "%q")
    assert not compare(first + body("q", select.format(k="1.0", p="olt")), X, "%p", "%q")
    narrow = (
        "%h = arith.truncf %a : f32 to {t}\n    %hh = arith.mulf %h, %h : {t}\n"
        "    %r = arith.extf %hh : {t} to f32"
    )
    halves = body("p", narrow.format(t="f16")) + body("q", narrow.format(t="bf16"))
    assert not compare(halves, X, "%p", "%q")


def test_reductions_differ_in_combiner_start_and_length():
    def spread(name: str, rows: str) -> str:
        return elementwise(
            name, rows, "tensor<4xf32>", "#row, #id",
            "%r = math.exp %a : f32\n    linalg.yield %r : f32", T48,
        )  # fmt: skip

    def body(*two: str) -> str:
        return "".join(two) + spread("p", "%s") + spread("q", "%u")

    plain = reduction("s", "%x")
    assert compare(body(plain, reduction("u", "%x")), X, "%p", "%q")
    assert not compare(body(plain, reduction("u", "%x", "arith.maximumf")), X, "%p", "%q")
    assert not compare(body(plain, reduction("u", "%x", init="1.0")), X, "%p", "%q")
    assert not compare(body(plain, reduction("u", "%y")), TWO, "%p", "%q")


def squares(f: Parsed) -> tuple[nodes.Expr, nodes.Element]:
    """The summed expression of the first result, and the second result's element."""
    node = ex.define(ex.start(f.results[0]))
    assert isinstance(node, nodes.Reduce)
    return node.arg, ex.start(f.results[1])


def test_reduction_loops_are_bound_to_the_corresponding_index():
    body = product("p", "%x", "%x") + reduction("s", "%p")
    f = Parsed(
        f"func.func @f({X}) -> (tensor<4xf32>, tensor<4x8xf32>) {{{body}\n"
        "  return %s, %p : tensor<4xf32>, tensor<4x8xf32>\n}"
    )
    arg, element = squares(f)
    binding: comparison.Binding = {}
    assert comparison.same(arg, element, binding)
    assert [(loop.dim, index) for loop, index in binding.items()] == [(1, 1)]


def test_a_loop_stands_for_one_index_only():
    """The second factor reads dimension 0 where the sum reads its loop, dimension 1, again."""

    def weighted(name: str, maps: str) -> str:
        return elementwise(
            name, "%x, %w", "tensor<8x8xf32>, tensor<8xf32>", maps,
            "%r = arith.mulf %a, %b : f32\n    linalg.yield %r : f32", "tensor<8x8xf32>",
        )  # fmt: skip

    total = reduction("s", "%p").replace("4x8x", "8x8x").replace("4x", "8x")
    for second, expected in (("#id, #col, #id", True), ("#id, #row, #id", False)):
        body = weighted("p", "#id, #col, #id") + total + weighted("q", second)
        f = Parsed(
            "func.func @f(%x: tensor<8x8xf32>, %w: tensor<8xf32>) -> "
            f"(tensor<8xf32>, tensor<8x8xf32>) {{{body}\n"
            "  return %s, %q : tensor<8xf32>, tensor<8x8xf32>\n}"
        )
        arg, element = squares(f)
        binding: comparison.Binding = {}
        assert comparison.same(arg, element, binding) is expected
        assert list(binding.values()) == [1] * expected


NESTED = """
#x = affine_map<(d0, d1) -> (d0, d1)>
#r = affine_map<(d0, d1) -> (d0)>
#j = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#jr = affine_map<(d0, d1, d2) -> (d0, d1)>
func.func @f(%z: tensor<4x4x8xf32>, %y: tensor<4x4xf32>) -> (tensor<4xf32>, tensor<4x4xf32>) {
  %zero = arith.constant 0.0 : f32
  %e2 = tensor.empty() : tensor<4x4xf32>
  %f2 = linalg.fill ins(%zero : f32) outs(%e2 : tensor<4x4xf32>) -> tensor<4x4xf32>
  %s = linalg.generic {indexing_maps = [#j, #jr],
      iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%z : tensor<4x4x8xf32>) outs(%f2 : tensor<4x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.addf %o, %a : f32
    linalg.yield %r : f32
  } -> tensor<4x4xf32>
  %u = linalg.generic {indexing_maps = [#j, #jr],
      iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%z : tensor<4x4x8xf32>) outs(%f2 : tensor<4x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.addf %o, %a : f32
    linalg.yield %r : f32
  } -> tensor<4x4xf32>
  %e1 = tensor.empty() : tensor<4xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<4xf32>) -> tensor<4xf32>
  %t = linalg.generic {indexing_maps = [#x, #x, #r], iterator_types = ["parallel", "reduction"]}
      ins(%s, %y : tensor<4x4xf32>, tensor<4x4xf32>) outs(%f1 : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %r = arith.addf %o, %p : f32
    linalg.yield %r : f32
  } -> tensor<4xf32>
  %q = linalg.generic {indexing_maps = [#x, SECOND, #x], iterator_types = ["parallel", "parallel"]}
      ins(%u, %y : tensor<4x4xf32>, tensor<4x4xf32>) outs(%e2 : tensor<4x4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    linalg.yield %p : f32
  } -> tensor<4x4xf32>
  return %t, %q : tensor<4xf32>, tensor<4x4xf32>
}
"""


@pytest.mark.parametrize(
    ("second", "expected"),
    [("#x", True), ("affine_map<(d0, d1) -> (d0, d0)>", False)],
)
def test_a_binding_made_inside_a_nested_reduction_holds_outside(second, expected):
    f = Parsed(NESTED.replace("SECOND", second))
    arg, element = squares(f)
    binding: comparison.Binding = {}
    assert comparison.same(arg, element, binding) is expected
    assert [index for loop, index in binding.items() if loop.size == 4] == [1] * expected


# --- products and means --------------------------------------------------------------------------


def test_factors_name_the_rest_of_the_product():
    body = product("p", "%x", "%y") + elementwise(
        "q", "%p, %z", f"{T48}, {T48}", "#id, #id, #id",
        "%r = arith.divf %a, %b : f32\n    linalg.yield %r : f32", T48,
    )  # fmt: skip
    f = function(body, f"{TWO}, %z: {T48}", "%q")
    x, y, z = (ex.start(a) for a in f.arguments)
    found = [(ex.define(inner), others) for inner, others in arithmetic.factors(ex.start(f.result))]
    assert found[1][1] == (arithmetic.Divisor(z),)
    assert found[2:] == [(x, (y, arithmetic.Divisor(z))), (y, (x, arithmetic.Divisor(z)))]


def test_addends_in_both_orders():
    body = elementwise(
        "s", "%x, %y", f"{T48}, {T48}", "#id, #id, #id",
        "%r = arith.addf %a, %b : f32\n    linalg.yield %r : f32", T48,
    )  # fmt: skip
    f = function(body, TWO, "%s")
    x, y = (ex.start(a) for a in f.arguments)
    assert arithmetic.addends(ex.start(f.result)) == [(x, y), (y, x)]
    assert arithmetic.addends(x) == []


def averaged(op: str, number: str, dtype: str = "f32", inside: bool = False) -> Parsed:
    """A sum of 8 elements with one constant factor or divisor."""
    scale = f"""
    %k = arith.constant {number} : {dtype}
    %r = {op} %a, %k : {dtype}
    linalg.yield %r : {dtype}"""
    rows = 'iterator_types = ["parallel"]'
    before = elementwise("p", "%x", T48, "#id, #id", scale, T48) if inside else ""
    total = reduction("s", "%p" if inside else "%x")
    after = f"""
  %m = linalg.generic {{indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
      {rows}}} ins(%s : tensor<4xf32>) outs(%s_e : tensor<4xf32>) {{
  ^bb0(%a: f32, %o: f32):{scale}
  }} -> tensor<4xf32>"""
    text = before + total + ("" if inside else after)
    text = text.replace("f32", dtype)
    return function(
        text, X.replace("f32", dtype), "%s" if inside else "%m", f"tensor<4x{dtype}>"
    )  # fmt: skip


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize(
    ("op", "number", "expected"),
    [
        ("arith.divf", "8.0", True),
        ("arith.mulf", "0.125", True),
        ("arith.divf", "7.0", False),
        ("arith.mulf", "8.0", False),
        ("arith.divf", "8.00001", False),
        ("arith.divf", "0.0", False),
    ],
)
def test_mean(op, number, expected, inside):
    f = averaged(op, number, inside=inside)
    found = arithmetic.mean(ex.start(f.result))
    assert (found is not None) is expected
    if found is not None:
        assert found.count == 8


def test_a_sum_is_no_mean():
    f = function(reduction("s", "%x"), X, "%s", "tensor<4xf32>")
    assert arithmetic.mean(ex.start(f.result)) is None
    total = arithmetic.scaled_sum(ex.start(f.result))
    assert total is not None
    assert (total.count, total.scale, total.type) == (8, 1.0, "")


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32"])
def test_the_size_may_be_rounded_to_its_type(dtype):
    """A thirtieth has no exact form; 1/30 of one type too coarse is another number."""
    import ml_dtypes
    import numpy as np

    kind = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32}[dtype]
    exact = float(kind(1.0 / 30.0))
    wrong = exact * (1.0 + 2.0 * float(ml_dtypes.finfo(kind).eps))
    for number, expected in ((exact, True), (wrong, False)):
        f = averaged("arith.mulf", f"{number:.12e}", dtype)
        node = arithmetic.scaled_sum(ex.start(f.result))
        assert node is not None
        assert node.type == dtype
        longer = Parsed(str(f.module).replace("x8x", "x30x"))
        found = arithmetic.mean(ex.start(longer.result))
        assert (found is not None) is expected


def test_a_mean_over_a_dynamic_size_has_no_count():
    f = Parsed(str(averaged("arith.divf", "8.0").module).replace("4x8x", "4x?x"))
    total = arithmetic.scaled_sum(ex.start(f.result))
    assert total is not None
    assert total.count is None
    assert arithmetic.mean(ex.start(f.result)) is None


# --- shared parts --------------------------------------------------------------------------------


def chain(depth: int, copies: int = 1, op: str = "arith.mulf") -> Parsed:
    """`x = x * x` written `depth` times, each in its own op; several copies of the whole."""
    body, results = "", []
    for copy in range(copies):
        value = "%x"
        for step in range(depth):
            name = f"v{copy}_{step}"
            body += elementwise(
                name, f"{value}, {value}", f"{T48}, {T48}", "#id, #id, #id",
                f"%r = {op} %a, %b : f32\n    linalg.yield %r : f32", T48,
            )  # fmt: skip
            value = f"%{name}"
        results.append(value)
    return function(body, X, ", ".join(results))


def body_chain(depth: int, copies: int = 1) -> Parsed:
    """`x = x * x` written `depth` times in the body of one op."""
    lines = [
        f"%r{i} = arith.mulf {'%a' if i == 0 else f'%r{i - 1}'}, "
        f"{'%a' if i == 0 else f'%r{i - 1}'} : f32"
        for i in range(depth)
    ]
    text = "\n    ".join([*lines, f"linalg.yield %r{depth - 1} : f32"])
    names = [f"c{copy}" for copy in range(copies)]
    body = "".join(elementwise(name, "%x", T48, "#id, #id", text, T48) for name in names)
    return function(body, X, ", ".join(f"%{name}" for name in names))


@pytest.fixture
def quick():
    """Fails the test when it took as long as an unbounded walk."""
    began = time.perf_counter()
    yield
    assert time.perf_counter() - began < SECONDS


@pytest.mark.parametrize("make", [chain, body_chain])
def test_sixty_doublings_are_compared_quickly(make, quick):
    f = make(60, 2)
    assert comparison.same(ex.start(f.results[0]), ex.start(f.results[1]))


@pytest.mark.parametrize("make", [chain, body_chain])
def test_sixty_doublings_are_walked_quickly(make, quick):
    f = make(60)
    element = ex.start(f.result)
    node = ex.define(element)
    assert len(list(arithmetic.factors(element))) == arithmetic.MAX_PRODUCT_NODES
    assert ex.loops(node) == {0, 1}
    assert len(set(ex.tensors(node))) == 1
    assert norms.find_norm(f.result) is None


@pytest.mark.parametrize("make", [chain, body_chain])
@pytest.mark.parametrize("depth", [60, 1000])
def test_doublings_are_no_activation(make, depth, quick):
    f = make(depth)
    assert activations.classify(ex.start(f.result), ex.start(f.arguments[0])) is None


def test_sixty_doubled_sums_are_no_norm(quick):
    f = chain(60, op="arith.addf")
    assert norms.find_norm(f.result) is None


@pytest.mark.parametrize("make", [chain, body_chain])
def test_a_chain_of_a_thousand_ops_is_walked_without_recursion(make):
    f = make(1000, 2)
    first, second = (ex.start(r) for r in f.results)
    assert not comparison.same(first, second), "deeper than the limit counts as another computation"
    node = ex.define(first)
    assert ex.loops(node) == {0, 1}
    assert len(set(ex.tensors(node))) == 1
    assert norms.find_norm(f.result) is None
