"""A program for any number of samples as a loop over a program for one.

    main(x: ?x3x224x224)  becomes  for i: y[i] = main_sample(x[i])

IREE generates slow code for a dimension of unknown size, and kernels for CPUs have static sizes.
Where the samples of a batch do not depend on each other, one of them at a time is as fast as a
program of its size, and CPUs have too few cores to compute several at once.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from iree.compiler import ir, passmanager

from mlirfuse.frontends.batches.independence import Work, analyze, small_array
from mlirfuse.frontends.batches.states import Dependent
from mlirfuse.frontends.lowering import parse_module, write_module
from mlirfuse.structured.ir import ops

if TYPE_CHECKING:
    from mlirfuse.frontends.imported import ImportedModel
    from mlirfuse.support.signature import TensorSpec

MAX_FEW_ROWS = 0.2
"""Share of the work up to which products may have few rows a sample: a batch reads their weights
once, a loop once for each sample."""

_SAMPLE = "main_sample"

CHUNK = 16
"""Samples whose results are collected before they are written to those of all: IREE copies what a
loop carries in each iteration, 16 samples or a sixteenth of all that often."""


def looped(imported: ImportedModel) -> ImportedModel | None:
    """The model as a loop over samples; None where the samples are not proved independent.

    Args:
      imported: has `at_batch`, and is not changed.

    Raises:
      ImportFailedError, CompileFailedError: as the import for a number of samples.
    """
    if imported.at_batch is None or imported.has_state:
        return None
    batched = [None in spec.shape for spec in imported.inputs]
    try:
        two = imported.at_batch(2)
        with ir.Context():
            module = parse_module(two.path, two.source)
            pair = _content(module)
            passmanager.PassManager.parse(
                "builtin.module(util.func(linalg-generalize-named-ops))"
            ).run(module.operation)
            work = analyze(_function(module), batched)
        if not _pays(work):
            return None
        one = imported.at_batch(1)
        if not (_fits(imported.inputs, one.inputs) and _fits(imported.outputs, one.outputs)):
            return None
        with ir.Context():
            module = parse_module(one.path, one.source)
            if _content(module) != pair:
                return None
            _wrap(module, batched)
            # Not over the file, which the module's weights are in.
            path = one.path.with_name("looped.mlirbc")
            write_module(module, path)
    except Dependent:
        return None
    return dataclasses.replace(
        imported,
        path=path,
        workdir=one.workdir,
        at_batch=None,
        unlooped=imported,
        notes=(),
        left_out=one.left_out,
    )


def _fits(batches: Sequence[TensorSpec], samples: Sequence[TensorSpec]) -> bool:
    """Whether the tensors of a sample are those of a batch, which may have more of them."""
    return len(batches) == len(samples) and all(
        (b.dtype, b.order, tuple(1 if n is None else n for n in b.shape))
        == (s.dtype, s.order, s.shape)
        for b, s in zip(batches, samples, strict=True)
    )


def _pays(work: Work) -> bool:
    return work.total > 0 and work.few_rows <= MAX_FEW_ROWS * work.total


def _function(module: ir.Module) -> ir.Operation:
    return next(op.operation for op in module.body if op.operation.name == "util.func")


def _content(module: ir.Module) -> tuple[set[str], Counter[str]]:
    """The numbers that a module computes with, and the scalar operations on floats.

    Where they differ between two sizes of a batch, the model computes something else for each. A
    number is taken once: how often it is written depends on the size. Indices and large constants
    are left out.
    """
    numbers: set[str] = set()
    operations: Counter[str] = Counter()

    for op in ops.nested_ops(module.operation):
        if op.name == "arith.constant" and not isinstance(op.results[0].type, ir.IndexType):
            value = op.attributes["value"]
            array = small_array(value)
            if not ops.shape(op.results[0]):
                numbers.add(str(value))
            elif array is not None:
                numbers.add(f"{array.dtype} {np.unique(array).tobytes().hex()}")
        elif op.name.startswith("math.") or (op.name.startswith("arith.") and op.name[-1] == "f"):
            operations[op.name] += 1
    return numbers, operations


def _wrap(module: ir.Module, batched: Sequence[bool]) -> None:
    """Makes the function of a module that of a sample, and adds the loop as `main`."""
    function = _function(module)
    kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    name = ops.symbol_name(function)
    function.attributes["sym_name"] = ir.StringAttr.get(_SAMPLE)
    function.attributes["sym_visibility"] = ir.StringAttr.get("private")
    text = _loop(name, kind.inputs, kind.results, batched)
    parsed = ir.Module.parse(f"module {{\n{text}\n}}")
    loop = next(op.operation for op in parsed.body if ops.symbol_name(op.operation) == name)
    loop.detach_from_parent()
    module.body.append(loop)
    module.operation.verify()


def _loop(
    name: str, inputs: Sequence[ir.Type], results: Sequence[ir.Type], batched: Sequence[bool]
) -> str:
    whole = [_open(kind) if has else str(kind) for kind, has in zip(inputs, batched, strict=True)]
    opened = [_open(kind) for kind in results]
    first = list(batched).index(True)
    numbers = range(len(results))
    given, samples = [], []
    for index, (kind, has) in enumerate(zip(inputs, batched, strict=True)):
        given.append(f"%sample{index}" if has else f"%x{index}")
        if has:
            samples.append(
                f"%sample{index} = tensor.extract_slice %x{index}{_place('%i', '1', kind)} :"
                f" {whole[index]} to {kind}"
            )
    inner = [
        "%i = arith.addi %first, %k : index",
        *samples,
        f"%made:{len(results)} = util.call @{_SAMPLE}({', '.join(given)}) :"
        f" ({_types(inputs)}) -> ({_types(results)})",
        *(
            f"%part{n}_next = tensor.insert_slice %made#{n} into"
            f" %part{n}_held{_place('%k', '1', results[n])} : {results[n]} into {opened[n]}"
            for n in numbers
        ),
    ]
    outer = [
        "%rest = arith.subi %count, %first : index",
        "%held = arith.minui %rest, %chunk : index",
        *(line for n in numbers for line in _zeros(f"part{n}", "%held", results[n])),
        *_for("part", "%k", "%held", "%one", opened, inner),
        *(
            f"%y{n}_next = tensor.insert_slice %part#{n} into"
            f" %y{n}_held{_place('%first', '%held', results[n])} : {opened[n]} into {opened[n]}"
            for n in numbers
        ),
    ]
    return "\n".join(
        [
            f"util.func private @{_SAMPLE}({', '.join(map(str, inputs))}) -> ({_types(results)})",
            f"util.func public @{name}({_named('%x', whole)}) -> ({', '.join(opened)}) {{",
            "%zero = arith.constant 0 : index",
            "%one = arith.constant 1 : index",
            f"%chunk = arith.constant {CHUNK} : index",
            f"%count = tensor.dim %x{first}, %zero : {whole[first]}",
            *(line for n in numbers for line in _zeros(f"y{n}", "%count", results[n])),
            *_for("y", "%first", "%count", "%chunk", opened, outer),
            f"util.return {', '.join(f'%y#{n}' for n in numbers)} : {', '.join(opened)}",
            "}",
        ]
    )


def _for(
    name: str, index: str, end: str, step: str, kinds: Sequence[str], body: Sequence[str]
) -> list[str]:
    """A loop from zero that carries tensors.

    Args:
      name: of its results. It begins with `%NAMEn_zeros`; in an iteration they are `%NAMEn_held`,
        and `%NAMEn_next` at its end.
      index: its index.
      end: the index before which it ends.
      step: its step.
      kinds: types of the tensors.
      body: lines of an iteration.
    """
    numbers, types = range(len(kinds)), ", ".join(kinds)
    held = ", ".join(f"%{name}{n}_held = %{name}{n}_zeros" for n in numbers)
    return [
        f"%{name}:{len(kinds)} = scf.for {index} = %zero to {end} step {step}"
        f" iter_args({held}) -> ({types}) {{",
        *body,
        f"scf.yield {', '.join(f'%{name}{n}_next' for n in numbers)} : {types}",
        "}",
    ]


def _zeros(name: str, count: str, kind: ir.Type) -> list[str]:
    """The tensor `NAME_zeros` that a loop writes results into.

    Without zeros IREE 3.13 allocates several of them as one, and its program fails when it copies a
    part of that.

    Raises:
      Dependent: an element type without a zero.
    """
    element, opened = ir.RankedTensorType(kind).element_type, _open(kind)
    if not isinstance(element, ir.FloatType | ir.IntegerType):
        raise Dependent(f"results of {element}")
    zero = "0.0" if isinstance(element, ir.FloatType) else "0"
    return [
        f"%{name}_zero = arith.constant {zero} : {element}",
        f"%{name}_empty = tensor.empty({count}) : {opened}",
        f"%{name}_zeros = linalg.fill ins(%{name}_zero : {element}) outs(%{name}_empty :"
        f" {opened}) -> {opened}",
    ]


def _open(kind: ir.Type) -> str:
    """The type of any number of samples."""
    return re.sub(r"^tensor<1x", "tensor<?x", str(kind))


def _types(kinds: Sequence[ir.Type]) -> str:
    return ", ".join(map(str, kinds))


def _named(prefix: str, kinds: Sequence[str]) -> str:
    return ", ".join(f"{prefix}{n}: {kind}" for n, kind in enumerate(kinds))


def _place(first: str, count: str, kind: ir.Type) -> str:
    """Offsets, sizes and strides of samples from one on."""
    sizes = ir.RankedTensorType(kind).shape
    rest = ", 0" * (len(sizes) - 1)
    ones = ", ".join("1" for _ in sizes)
    return f"[{first}{rest}] [{', '.join((count, *map(str, sizes[1:])))}] [{ones}]"
