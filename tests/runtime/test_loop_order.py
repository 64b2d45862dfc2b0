"""Programs whose loops IREE orders wrong without `loop_order.repair`."""

import numpy as np
import pytest

import mlirfuse
from mlirfuse.builders import loop_order

ELEMENTWISE = """linalg.generic {indexing_maps = [#m, #m], iterator_types = ["parallel"]}
      ins(%INPUT : tensor<8xf32>) outs(%e : tensor<8xf32>) {
    ^bb0(%a: f32, %b: f32):
      %s = math.NAME %a : f32
      linalg.yield %s : f32
    } -> tensor<8xf32>"""

REGION = """flow.dispatch.region -> (tensor<8xf32>) {
      %z = GENERIC
      flow.return %z : tensor<8xf32>
    }"""

PROGRAM = """#m = affine_map<(d0) -> (d0)>
func.func @main(%x: tensor<8xf32>, %steps: i64) -> (tensor<8xf32>, tensor<8xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = arith.index_cast %steps : i64 to index
  %e = tensor.empty() : tensor<8xf32>
  %y = EXP
LOOPS
  %q = COS
  %o = linalg.generic {indexing_maps = [#m, #m, #m], iterator_types = ["parallel"]}
      ins(%r, %y : tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<8xf32>) {
    ^bb0(%a: f32, %c: f32, %b: f32):
      %s = arith.addf %a, %c : f32
      linalg.yield %s : f32
  } -> tensor<8xf32>
  return %o, %q : tensor<8xf32>, tensor<8xf32>
}
"""

LOOP = """  %RESULT = scf.for %i = %c0 to %n step %c1 iter_args(%v = %FIRST) -> tensor<8xf32> {
    %w = BODY
    scf.yield %w : tensor<8xf32>
  }
"""


def elementwise(name, value):
    return ELEMENTWISE.replace("NAME", name).replace("INPUT", value)


def region(name, value):
    return REGION.replace("GENERIC", elementwise(name, value))


def loop(result, first, body):
    return LOOP.replace("RESULT", result).replace("FIRST", first).replace("BODY", body)


VARIABLE = loop("r", "y", elementwise("sin", "v"))
"""The loop's variable begins with the value."""

CAPTURED = loop("p", "x", elementwise("sin", "y")) + loop("r", "x", elementwise("sin", "p"))
"""A loop captures the value, and a second loop the first one's result."""


def program_text(loops):
    text = PROGRAM.replace("EXP", region("exp", "x")).replace("COS", region("cos", "y"))
    return text.replace("LOOPS", loops)


@pytest.mark.parametrize("loops", [VARIABLE, CAPTURED], ids=["variable", "captured"])
def test_a_value_of_a_loop_and_of_ops_after_it(loops, tmp_path, monkeypatch):
    path = tmp_path / "loop.mlir"
    path.write_text(program_text(loops))
    program = mlirfuse.compile(str(path), cache=False)
    x = np.linspace(-1, 1, 8, dtype=np.float32)
    looped = y = np.exp(x)
    if loops == CAPTURED:
        looped = np.sin(np.sin(y))
    else:
        for _ in range(3):
            looped = np.sin(looped)
    sums, cosines = program(x, np.int64(3))
    np.testing.assert_allclose(sums, looped + y, rtol=1e-5)
    np.testing.assert_allclose(cosines, np.cos(y), rtol=1e-5)

    monkeypatch.setattr(loop_order, "repair", lambda module: False)
    with pytest.raises(mlirfuse.CompileFailedError, match="|".join(loop_order.DIAGNOSTICS)):
        mlirfuse.compile(str(path), cache=False)


def test_large_constants(tmp_path):
    """The repaired program has the constants that were read from the file of the grouped one."""
    numbers = np.arange(1 << 18, dtype=np.float32)
    kind = f"tensor<{numbers.size}xf32>"
    text = program_text(VARIABLE).replace("-> (tensor<8xf32>,", f"-> ({kind}, tensor<8xf32>,", 1)
    constant = f"  %k = arith.constant dense_resource<k> : {kind}\n"
    returned = f"  return %k, %o, %q : {kind}, "
    text = text.replace("  return %o, %q : ", constant + returned)
    data = f'{{-# dialect_resources: {{builtin: {{k: "0x04000000{numbers.tobytes().hex()}"}}}} #-}}'
    path = tmp_path / "loop.mlir"
    path.write_text(f"{text}\n{data}\n")
    found, _, _ = mlirfuse.compile(str(path), cache=False)(np.ones(8, np.float32), np.int64(3))
    np.testing.assert_array_equal(found, numbers)
