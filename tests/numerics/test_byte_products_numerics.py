"""Products of i8 are exact for every instruction set, and so are those that ONNX writes."""

import dataclasses

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mlirfuse

TARGETS = ("cpu:host", "cpu:x86-64-v4", "cpu:x86-64-v3", "cpu:x86-64")
"""This machine, and products of two bytes in vectors of 64, 32 and 16 bytes."""


@dataclasses.dataclass(frozen=True)
class Form:
    """A product of M x K and K x N bytes; `constant` is the second operand."""

    m: int
    k: int
    n: int
    signs: str = "ss"
    constant: bool = False
    extremes: bool = False
    transposed: bool = False

    def operands(self):
        rng = np.random.default_rng(self.m + self.k + self.n)
        found = []
        for sign, sizes in zip(self.signs, ((self.m, self.k), (self.k, self.n)), strict=True):
            info = np.iinfo(np.int8 if sign == "s" else np.uint8)
            numbers = [info.min, info.max] if self.extremes else range(info.min, info.max + 1)
            found.append(rng.choice(numbers, sizes).astype(info.dtype))
        if self.extremes:
            found[0][0], found[1][:, 0] = found[0].min(), found[1].min()
            found[0][-1] = found[0].max()
        return found

    def expected(self):
        a, b = (x.astype(np.int64) for x in self.operands())
        return (a @ b).astype(np.int32)


FORMS = (
    Form(1, 64, 48, constant=True),
    Form(3, 7, 17, "us", constant=True),
    Form(16, 33, 100, constant=True, extremes=True),
    Form(61, 2, 40, "us", constant=True),
    Form(40, 130, 33),
    Form(37, 41, 64, "su", constant=True, extremes=True),
    Form(35, 66, 31, "uu", extremes=True),
    Form(33, 150_001, 16, "us", extremes=True),
    Form(34, 150_002, 3, extremes=True),
    Form(45, 37, 48, constant=True, transposed=True),
)
"""Odd sizes, a step of K that is not whole, and sums that exceed i32."""


def module():
    """One function with all products."""
    arguments, lines, results = [], [], []
    for n, form in enumerate(FORMS):
        b = form.operands()[1]
        x = f"{form.k}x{form.m}" if form.transposed else f"{form.m}x{form.k}"
        y, z = f"{form.k}x{form.n}", f"{form.m}x{form.n}"
        arguments.append(f"%a{n}: tensor<{x}xi8>")
        if form.constant:
            data = b.tobytes().hex()
            lines.append(f'%b{n} = arith.constant dense<"0x{data}"> : tensor<{y}xi8>')
        else:
            arguments.append(f"%b{n}: tensor<{y}xi8>")
        extend = ["arith.extsi" if sign == "s" else "arith.extui" for sign in form.signs]
        first = "(m, n, k) -> (k, m)" if form.transposed else "(m, n, k) -> (m, k)"
        lines.append(f"""
  %e{n} = tensor.empty() : tensor<{z}xi32>
  %f{n} = linalg.fill ins(%zero : i32) outs(%e{n} : tensor<{z}xi32>) -> tensor<{z}xi32>
  %y{n} = linalg.generic {{indexing_maps = [affine_map<{first}>,
      affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction"]}}
      ins(%a{n}, %b{n} : tensor<{x}xi8>, tensor<{y}xi8>) outs(%f{n} : tensor<{z}xi32>) {{
  ^bb0(%i: i8, %j: i8, %o: i32):
    %p = {extend[0]} %i : i8 to i32
    %q = {extend[1]} %j : i8 to i32
    %r = arith.muli %p, %q : i32
    %s = arith.addi %o, %r : i32
    linalg.yield %s : i32
  }} -> tensor<{z}xi32>""")
        results.append(f"tensor<{z}xi32>")
    names = ", ".join(f"%y{n}" for n in range(len(FORMS)))
    kinds = ", ".join(results)
    return (
        f"func.func @main({', '.join(arguments)}) -> ({kinds}) {{\n"
        f"  %zero = arith.constant 0 : i32\n{chr(10).join(lines)}\n"
        f"  return {names} : {kinds}\n}}\n"
    )


@pytest.mark.parametrize("target", TARGETS)
def test_products_are_exact(target, tmp_path):
    path = tmp_path / "products.mlir"
    path.write_text(module())
    program = mlirfuse.compile(path, target=target, cache=False)
    assert program.report.counts()["matmul_vector_kernel"] == len(FORMS)
    given = []
    for form in FORMS:
        a, b = form.operands()
        given.append((a.T if form.transposed else a).copy().view(np.int8))
        given += [] if form.constant else [b.view(np.int8)]
    for form, found in zip(FORMS, program(*given), strict=True):
        np.testing.assert_array_equal(np.asarray(found), form.expected(), err_msg=str(form))


def matmul_integer(x, w, zero_x, zero_w):
    """An ONNX model of one `MatMulInteger` with those constants, whose result is i32."""
    kinds = {np.dtype(np.uint8): TensorProto.UINT8, np.dtype(np.int8): TensorProto.INT8}
    inputs, weights = ["x", "w"], [numpy_helper.from_array(w, "w")]
    for name, zero in (("zx", zero_x), ("zw", zero_w)):
        inputs.append("" if zero is None else name)
        if zero is not None and name == "zw":
            weights.append(numpy_helper.from_array(zero, name))
    given = [helper.make_tensor_value_info("x", kinds[x.dtype], x.shape)]
    if zero_x is not None:
        given.append(helper.make_tensor_value_info("zx", kinds[zero_x.dtype], []))
    shape = np.matmul(x.astype(int), w.astype(int)).shape
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", inputs, ["y"])],
        "product",
        given,
        [helper.make_tensor_value_info("y", TensorProto.INT32, shape)],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


ONNX = {
    "u8_s8": (((6, 37), np.uint8, 128), ((37, 24), np.int8, None)),
    "u8_s8_zero": (((6, 37), np.uint8, 3), ((37, 24), np.int8, 0)),
    "u8_u8": (((5, 20), np.uint8, 255), ((20, 17), np.uint8, 131)),
    "s8_s8": (((4, 20), np.int8, -128), ((20, 17), np.int8, 127)),
    "s8_u8": (((4, 20), np.int8, None), ((20, 17), np.uint8, 7)),
    "batch": (((2, 3, 20), np.uint8, 77), ((20, 16), np.int8, 0)),
    "batch_of_one": (((1, 3, 20), np.uint8, 77), ((20, 16), np.int8, None)),
    "batch_of_both": (((2, 3, 20), np.uint8, 77), ((2, 20, 16), np.int8, 5)),
}
"""Name -> sizes, type and zero point of both operands."""


@pytest.mark.parametrize("name", list(ONNX))
def test_onnx(name, tmp_path):
    rng, numbers, zeros = np.random.default_rng(5), [], []
    for sizes, kind, zero in ONNX[name]:
        info = np.iinfo(kind)
        numbers.append(rng.integers(info.min, info.max + 1, sizes).astype(kind))
        numbers[-1].flat[:2] = info.min, info.max
        zeros.append(None if zero is None else np.array(zero, kind))
    path = tmp_path / "model.onnx"
    onnx.save(matmul_integer(*numbers, *zeros), path)
    program = mlirfuse.compile(path, target="cpu", cache=False)
    given = [numbers[0], *([] if zeros[0] is None else [zeros[0]])]
    a, b = (
        x.astype(np.int64) - (0 if z is None else z.astype(np.int64))
        for x, z in zip(numbers, zeros, strict=True)
    )
    np.testing.assert_array_equal(np.asarray(program(*given)), a @ b)
