"""Products of widened bytes become products of bytes where that is exact, and no other ones do."""

import itertools

import numpy as np
import onnx
import pytest
from iree.compiler import ir

import mlirfuse
from mlirfuse.frontends.byte_products import narrow_products

TEXT = """
#id = affine_map<(m, k) -> (m, k)>
#scalar = affine_map<(m, k) -> ()>
func.func @main(%x: tensor<4x{k}xi8>, %w: tensor<{k}x8xi8>, %z: tensor<{point}>)
    -> tensor<4x8x{out}> {{
  %zero = arith.constant {start} : {sum}
  %xe = tensor.empty() : tensor<4x{k}xi32>
  %we = tensor.empty() : tensor<{k}x8xi32>
  %xw = linalg.generic {{indexing_maps = [#id, #scalar, #id], iterator_types =
      ["parallel", "parallel"]}} ins(%x, %z : tensor<4x{k}xi8>, tensor<{point}>)
      outs(%xe : tensor<4x{k}xi32>) {{
  ^bb0(%i: i8, %j: {point}, %o: i32):
    %a = arith.extui %i : i8 to i32
    %b = arith.ext{point_sign} %j : {point} to i32
    %c = arith.{combine} %a, %b : i32
    linalg.yield %c : i32
  }} -> tensor<4x{k}xi32>
  %ww = linalg.generic {{indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}}
      ins(%w : tensor<{k}x8xi8>) outs(%we : tensor<{k}x8xi32>) {{
  ^bb0(%i: i8, %o: i32):
    %a = arith.extsi %i : i8 to i32
    linalg.yield %a : i32
  }} -> tensor<{k}x8xi32>
  %e = tensor.empty() : tensor<4x8x{sum}>
  %f = linalg.fill ins(%zero : {sum}) outs(%e : tensor<4x8x{sum}>) -> tensor<4x8x{sum}>
  %y = linalg.matmul {cast} ins(%xw, %ww : tensor<4x{k}xi32>, tensor<{k}x8xi32>)
      outs(%f : tensor<4x8x{sum}>) -> tensor<4x8x{sum}>
  {end}
}}
"""

NARROW = """
  %n = tensor.empty() : tensor<4x8xi32>
  %t = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%y : tensor<4x8xi64>) outs(%n : tensor<4x8xi32>) {
  ^bb0(%i: i64, %o: i32):
    %a = arith.trunci %i : i64 to i32
    linalg.yield %a : i32
  } -> tensor<4x8xi32>
  return %t : tensor<4x8xi32>
"""

FORM = {
    "k": 16,
    "sum": "i64",
    "out": "i64",
    "start": 0,
    "point": "i8",
    "point_sign": "ui",
    "combine": "subi",
    "cast": "",
    "end": "return %y : tensor<4x8xi64>",
}

TAKEN = {
    "wide": {},
    "i32": {"sum": "i32", "out": "i32", "end": "return %y : tensor<4x8xi32>"},
    "truncated": {"k": 40_000, "out": "i32", "end": NARROW},
}

REFUSED = {
    "sums_that_exceed_i32": {"k": 40_000},
    "accumulators_from_one": {"start": 1},
    "a_point_that_is_added": {"combine": "addi"},
    "a_point_of_16_bits": {"point": "i16"},
    "sums_of_unsigned_i32": {"cast": "{cast = #linalg.type_fn<cast_unsigned>}"},
}


def rewritten(**changes):
    """Whether it was rewritten, and the text after it."""
    fields = {**FORM, **changes}
    cast = fields["cast"]
    fields["cast"] = ""
    text = TEXT.format(**fields)
    if cast:
        text = text.replace("outs(%f", "outs(%f").replace(
            "linalg.matmul ", f"linalg.matmul {cast} "
        )
    with ir.Context():
        module = ir.Module.parse(text)
        changed = narrow_products(module)
        assert module.operation.verify()
        return changed, str(module)


@pytest.mark.parametrize("name", list(TAKEN))
def test_products_of_bytes(name):
    changed, text = rewritten(**TAKEN[name])
    assert changed
    k = TAKEN[name].get("k", 16)
    assert f": tensor<4x{k}xi8>, tensor<{k}x8xi8>) outs(" in text
    assert ("arith.extsi %in : i32 to i64" in text) == (name == "wide")


@pytest.mark.parametrize("name", list(REFUSED))
def test_other_products_stay(name):
    changed, _ = rewritten(**REFUSED[name])
    assert not changed


@pytest.mark.parametrize("kinds", [*itertools.product(("uint8", "int8"), repeat=2)])
def test_a_product_of_integers_without_zero_points(kinds, tmp_path):
    """IREE takes two unsigned operands without zero points as signed ones."""
    types = [onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind)) for kind in kinds]
    info = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMulInteger", ["a", "b"], ["y"])],
        "product",
        [info("a", types[0], [5, 7]), info("b", types[1], [7, 9])],
        [info("y", onnx.TensorProto.INT32, [5, 9])],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    onnx.save(model, tmp_path / "model.onnx")
    random = np.random.default_rng(3)
    limits = [np.iinfo(kind) for kind in kinds]
    a, b = (
        random.integers(limit.min, limit.max + 1, shape).astype(kind)
        for limit, kind, shape in zip(limits, kinds, ((5, 7), (7, 9)), strict=True)
    )
    program = mlirfuse.compile(tmp_path / "model.onnx")
    np.testing.assert_array_equal(program(a, b), a.astype(np.int32) @ b.astype(np.int32))


@pytest.mark.parametrize("target", ["cpu", "cuda:sm_90"])
def test_products_of_bytes_with_transposed_weights(target):
    """IREE crashed where it moved the transpose into a matmul without indexing maps."""
    torch = pytest.importorskip("torch")
    generator = torch.Generator().manual_seed(0)
    x, w = (
        torch.randint(-127, 127, shape, generator=generator, dtype=torch.int8)
        for shape in ((4, 16), (8, 16))
    )

    def model(x, w):
        return x.to(torch.int32) @ w.t().to(torch.int32)

    program = mlirfuse.compile(model, (x, w), target=target)
    if target == "cpu":
        assert torch.equal(program(x, w), model(x, w))
