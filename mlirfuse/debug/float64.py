"""The float64 reference of a module at global-optimization level, computed on the CPU.

Every f16, bf16 and f32 becomes f64, also as the parts of complex numbers; casts between them
vanish. The module may be one for a GPU: at this level only its device tells it from one for the
CPU.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from iree.compiler import ir

from mlirfuse import targets
from mlirfuse.backend.compiler import Compiler
from mlirfuse.builders.tensors import dynamic_sizes, empty, generic, scalar
from mlirfuse.core import MlirfuseError
from mlirfuse.options import FusionOptions
from mlirfuse.runtime import isolated
from mlirfuse.runtime.arrays import dtype_name, numpy_dtype
from mlirfuse.runtime.inputs import Array
from mlirfuse.runtime.isolated import Signature
from mlirfuse.structured.ir import ops
from mlirfuse.support import temporary
from mlirfuse.support.signature import TensorSpec

MAX_MODULE_BYTES = 1 << 28
"""Maximum size of a module that is widened, in bytes: its constants pass through Python."""

_NARROW = re.compile(r"(?<![a-z])(?:bf16|f16|f32)(?![\w])|(?<=x)(?:bf16|f16|f32)(?![\w])")

_CASTS = frozenset({"arith.extf", "arith.truncf"})
_BITCASTS = frozenset(
    {"arith.bitcast", "complex.bitcast", "tensor.bitcast", "iree_tensor_ext.bitcast"}
)


def results(
    source: Path, inputs: Sequence[Array], signature: Signature, compiler: Compiler
) -> list[Array]:
    """Calls a module's function in float64.

    Args:
      source: file of the module, at global-optimization level, for any target.
      inputs: arguments; floats are widened.
      signature: signature of the function before widening.
      compiler: compiler of the tested program, for its time limit.

    Raises:
      MlirfuseError: the module cannot be widened, or IREE cannot compile or run it in float64.
    """
    if source.stat().st_size > MAX_MODULE_BYTES:
        raise MlirfuseError(f"the model is larger than {MAX_MODULE_BYTES >> 20} MiB")
    with temporary.folder("mlirfuse-") as name:
        wide = Path(name, "wide.mlirbc")
        with ir.Context():
            module = widened(ir.Module.parseFile(os.fspath(source)))
            with wide.open("wb") as file:
                module.operation.write_bytecode(file)
        program = Path(name, "wide.vmfb")
        plain = Compiler(targets.parse("cpu"), FusionOptions(), compiler.timeout)
        plain.generate(wide, program, fused=False)
        values = [v.astype(numpy_dtype(_wide(dtype_name(v)))) for v in inputs]
        widths = Signature(
            signature.function, _wide_specs(signature.inputs), _wide_specs(signature.outputs)
        )
        return isolated.call(
            program, values, signature=widths, device="local-task", timeout=compiler.timeout
        ).results


def _wide_specs(specs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
    return tuple(dataclasses.replace(s, dtype=_wide(s.dtype)) for s in specs)


def _wide(dtype: str) -> str:
    """The element type that takes the place of one, by its name."""
    return _NARROW.sub("f64", dtype)


def widened(module: ir.Module) -> ir.Module:
    """A copy of the module, for no device yet, in which every narrow float is an f64.

    Raises:
      MlirfuseError: it uses the bits of complex numbers, or has constants that cannot be read.
    """
    with module.context, ir.Location.unknown():
        made = ir.Module.create()
        work = _Widen(_resources(module))
        for name in module.operation.attributes:
            if name != _DEVICE:
                made.operation.attributes[name] = module.operation.attributes[name]
        with ir.InsertionPoint(made.body):
            for op in module.body.operations:
                if not _is_device(op.operation):
                    work.copy(op.operation)
        try:
            made.operation.verify()
        except ir.MLIRError as error:
            message = (
                error.error_diagnostics[0].message if error.error_diagnostics else "not valid IR"
            )
            raise MlirfuseError(f"the model has no float64 form: {message}") from error
        return made


_DEVICE = "stream.affinity.default"
"""Attribute that names the device of a module or a global."""


def _is_device(op: ir.Operation) -> bool:
    """Whether an op of the module is the global of a device."""
    return op.name == "util.global" and str(op.attributes["type"]) == "!hal.device"


_RESOURCE = re.compile(r'^\s*(?P<name>[\w.$-]+|"[^"]*"): "0x(?P<hex>[0-9A-Fa-f]*)"', re.MULTILINE)
_RESOURCE_USE = re.compile(r"dense_resource<(?P<name>[^>]+)>")

_ALIGNMENT_BYTES = 4
"""Size of the alignment in front of a resource's data, in bytes."""


def _resources(module: ir.Module) -> dict[str, bytes]:
    """The data of resources by name; the bindings cannot read it otherwise."""
    text = module.operation.get_asm()
    start = text.rfind("{-#")
    if start < 0:
        return {}
    return {
        found["name"]: bytes.fromhex(found["hex"])[_ALIGNMENT_BYTES:]
        for found in _RESOURCE.finditer(text, start)
    }


class _Widen:
    def __init__(self, resources: dict[str, bytes]) -> None:
        self.resources = resources
        self.values: dict[ir.Value, ir.Value] = {}
        self.wide = ir.F64Type.get()
        self.narrow = (ir.F32Type.get(), ir.F16Type.get(), ir.BF16Type.get())

    def type(self, kind: ir.Type) -> ir.Type:
        if kind in self.narrow:
            return self.wide
        if isinstance(kind, ir.RankedTensorType):
            element = self.type(kind.element_type)
            if element != kind.element_type:
                return ir.RankedTensorType.get(kind.shape, element, kind.encoding)
            return kind
        if isinstance(kind, ir.FunctionType):
            return ir.FunctionType.get(
                [self.type(t) for t in kind.inputs], [self.type(t) for t in kind.results]
            )
        if isinstance(kind, ir.ComplexType):
            return ir.ComplexType.get(self.type(kind.element_type))
        return kind

    def attribute(self, value: ir.Attribute) -> ir.Attribute:
        if isinstance(value, ir.FloatAttr):
            return ir.FloatAttr.get(self.type(value.type), value.value)
        if isinstance(value, ir.TypeAttr):
            return ir.TypeAttr.get(self.type(value.value))
        if isinstance(value, ir.ArrayAttr):
            return ir.ArrayAttr.get([self.attribute(v) for v in value])
        if isinstance(value, ir.DictAttr):
            return ir.DictAttr.get({n: self.attribute(value[n]) for n in _names(value)})
        if isinstance(value, ir.StringAttr) and "tensor<" in value.value:
            return ir.StringAttr.get(_NARROW.sub("f64", value.value))
        if isinstance(value, ir.DenseElementsAttr):
            return self._dense(value)
        # The bindings have no class for this attribute.
        if type(value) is ir.Attribute and (found := _RESOURCE_USE.match(str(value))):
            return self._resource(value, found["name"])
        return value

    def _dense(self, value: Any) -> ir.Attribute:
        kind = value.type
        wide = self.type(kind)
        if wide == kind:
            return value
        element = kind.element_type
        if isinstance(element, ir.ComplexType):
            return _complex(_from_text(str(value), str(element.element_type)), wide)
        if value.is_splat:
            number = ir.FloatAttr.get(self.wide, ir.FloatAttr(value.get_splat_value()).value)
            return ir.DenseElementsAttr.get_splat(wide, number)
        # The bindings have no buffer of bf16.
        bf16 = element == self.narrow[2]
        numbers = _from_text(str(value)) if bf16 else np.asarray(value).astype(np.float64)
        return ir.DenseElementsAttr.get(numbers.reshape(kind.shape), type=wide)

    def _resource(self, value: ir.Attribute, name: str) -> ir.Attribute:
        kind = ir.RankedTensorType(value.type)
        if self.type(kind) == kind:
            return value
        if name not in self.resources:
            raise MlirfuseError(f"the data of the constant {name} cannot be read")
        element = str(kind.element_type)
        numbers = np.frombuffer(self.resources[name], numpy_dtype(element))
        wide = numbers.astype(numpy_dtype(_wide(element))).reshape(kind.shape)
        return ir.DenseResourceElementsAttr.get_from_buffer(wide, f"{name}_f64", self.type(kind))

    def copy(self, op: ir.Operation) -> None:
        operands = [self.values[v] for v in op.operands]
        kinds = [self.type(r.type) for r in op.results]
        if op.name in _CASTS and self.type(op.operands[0].type) == kinds[0]:
            self.values[op.results[0]] = operands[0]
            return
        if op.name in _BITCASTS and not _same_part(op.operands[0], op.results[0]):
            self._bitcast(op, operands)
            return
        if len(op.successors) > 0:
            raise MlirfuseError(f"the model branches ({op.name})")
        made = ir.Operation.create(
            op.name,
            results=kinds,
            operands=operands,
            attributes={n: self.attribute(op.attributes[n]) for n in op.attributes if n != _DEVICE},
            regions=len(op.regions),
            loc=op.location,
        )
        self.values.update(zip(op.results, made.results, strict=True))
        for old, new in zip(op.regions, made.regions, strict=True):
            for block in old.blocks:
                kinds = [self.type(a.type) for a in block.arguments]
                locations = [op.location] * len(kinds)
                inner = new.blocks.append(*kinds, arg_locs=locations)
                self.values.update(zip(block.arguments, inner.arguments, strict=True))
                with ir.InsertionPoint(inner):
                    for nested in block.operations:
                        self.copy(nested.operation)

    def _bitcast(self, op: ir.Operation, operands: list[ir.Value]) -> None:
        """The bits of a float are those of its own type, to which it is rounded."""
        source, result = op.operands[0].type, op.results[0].type
        made = ir.Operation.create(
            op.name,
            results=[result],
            operands=[_converted("arith.truncf", operands[0], source), *operands[1:]],
            attributes={n: op.attributes[n] for n in op.attributes},
            loc=op.location,
        )
        wide = _converted("arith.extf", made.results[0], self.type(result))
        self.values[op.results[0]] = wide


def _same_part(value: ir.Value, result: ir.Value) -> bool:
    """Whether both have the same floats, alone or as the parts of complex numbers."""
    one, other = (ops.element_type(v).removeprefix("complex<").rstrip(">") for v in (value, result))
    return one == other


def _converted(name: str, value: ir.Value, kind: ir.Type) -> ir.Value:
    """A float, or each one of a tensor, converted to the element type of another type.

    Raises:
      MlirfuseError: they are complex.
    """
    if value.type == kind:
        return value
    tensor = isinstance(kind, ir.RankedTensorType)
    element = kind.element_type if tensor else kind
    if isinstance(element, ir.ComplexType):
        raise MlirfuseError("the model uses the bits of complex numbers")
    if not tensor:
        return scalar(name, [value], str(element))
    identity = tuple(range(kind.rank))
    return generic(
        [value],
        [empty(ops.shape(value), str(element), dynamic_sizes(value))],
        [identity, identity],
        ["parallel"] * kind.rank,
        lambda arguments: [scalar(name, arguments[:1], str(element))],
    ).results[0]


_DENSE_BYTES = re.compile(r'dense<"0x(?P<hex>[0-9A-Fa-f]*)">')
_DENSE_NUMBER = re.compile(r"0x[0-9A-Fa-f]+|-?\d[\d.]*(?:[eE][-+]?\d+)?")


def _from_text(text: str, element: str = "bf16") -> Array:
    """The numbers of a printed constant, in order; infinities and NaNs are printed as bits."""
    kind = numpy_dtype(element)
    if found := _DENSE_BYTES.match(text):
        return np.frombuffer(bytes.fromhex(found["hex"]), kind).astype(np.float64)
    words = _DENSE_NUMBER.findall(text.rpartition("> : ")[0])
    bits = np.dtype(f"u{kind.itemsize}")
    return np.array(
        [
            bits.type(int(w, 16)).view(kind).astype(np.float64) if w[:2] == "0x" else float(w)
            for w in words
        ]
    )


def _complex(parts: Array, kind: ir.Type) -> ir.Attribute:
    """The constant of complex numbers in f64, from their parts in order; one number is a splat."""
    return ir.Attribute.parse(f'dense<"0x{parts.tobytes().hex()}"> : {kind}')


def _names(attributes: ir.DictAttr) -> list[str]:
    return [attributes[i].name for i in range(len(attributes))]
