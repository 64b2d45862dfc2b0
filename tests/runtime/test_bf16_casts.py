"""Integers become bf16 on CPUs without an instruction for it, and are rounded as elsewhere."""

import ml_dtypes
import numpy as np
import pytest
from iree.compiler import ir

import mlirfuse
from mlirfuse import targets
from mlirfuse.builders.bf16_casts import round_integers_to_bf16
from mlirfuse.structured.ir import ops

WITHOUT = ("cpu:x86-64-v3", "cpu:x86-64-v2", "cpu:generic")
"""Any x86 runs their code; on a machine of another architecture they only compile."""

TIES = [0, 1, -1, 255, 257, 258, 259, 261, -257, -259, 2**24 + 1, 2**31 - 1, -(2**31)]
"""Halves between two neighbours of bf16, which has eight bits of precision, and the ends of i32."""


def program(*conversions):
    """A function of one tensor for each conversion, `arith.sitofp i8`, ..., to bf16."""
    arguments, results, lines = [], [], []
    for n, (op, kind) in enumerate(conversions):
        size = 256 if kind == "i8" else len(TIES)
        arguments.append(f"%a{n}: tensor<{size}x{kind}>")
        results.append((f"%r{n}", f"tensor<{size}xbf16>"))
        lines.append(f"""
    %e{n} = tensor.empty() : tensor<{size}xbf16>
    %r{n} = linalg.generic {{indexing_maps = [#id, #id], iterator_types = ["parallel"]}}
        ins(%a{n} : tensor<{size}x{kind}>) outs(%e{n} : tensor<{size}xbf16>) {{
    ^bb0(%x: {kind}, %o: bf16):
      %z = {op} %x : {kind} to bf16
      linalg.yield %z : bf16
    }} -> tensor<{size}xbf16>""")
    types = ", ".join(kind for _, kind in results)
    return f"""#id = affine_map<(d0) -> (d0)>
  func.func @main({", ".join(arguments)}) -> ({types}) {{{"".join(lines)}
    return {", ".join(name for name, _ in results)} : {types}
  }}"""


CONVERSIONS = (("arith.sitofp", "i8"), ("arith.uitofp", "i8"), ("arith.sitofp", "i32"))


@pytest.mark.parametrize("stock", [False, True], ids=["fused", "unfused"])
@pytest.mark.parametrize("target", WITHOUT)
def test_integers_are_rounded_to_even(target, stock):
    assert not targets.parse(target).bf16_instructions
    pipeline = {"pipeline": "none"} if stock else {}
    module = mlirfuse.compile(program(*CONVERSIONS), target=target, cache=False, **pipeline)
    every = np.arange(-128, 128, dtype=np.int8)
    found = module(every, every, np.array(TIES, np.int32))
    want = (every, every.view(np.uint8), np.array(TIES, np.int32))
    for got, numbers in zip(found, want, strict=True):
        expected = numbers.astype(np.float32).astype(ml_dtypes.bfloat16)
        assert np.asarray(got).tobytes() == expected.tobytes()


def test_verify_compiles_the_unfused_program_too():
    found = mlirfuse.verify(
        program(("arith.sitofp", "i8")),
        target="cpu:x86-64-v3",
        options=mlirfuse.FusionOptions(pipeline="none"),
    )
    assert found.ok


@pytest.mark.parametrize(("arch", "instructions"), [("znver4", True), ("x86-64-v4", False)])
def test_other_forms_are_kept(arch, instructions):
    assert targets.parse(f"cpu:{arch}").bf16_instructions is instructions
    with ir.Context():
        module = ir.Module.parse(program(("arith.sitofp", "i8")).replace("bf16", "f16"))
        before = str(module)
        assert not round_integers_to_bf16(module)
        assert str(module) == before
        module = ir.Module.parse(program(("arith.sitofp", "i8")))
        assert round_integers_to_bf16(module)
        kinds = [str(op.results[0].type) for op in ops.nested_ops(module.operation) if op.results]
        assert "i16" in kinds
        assert not round_integers_to_bf16(module)
