"""`python -m benchmarks.catalogue [PASS...]`: element types and targets of passes, and savings.

The examples of a pass are the functions of its lit files in which it fires, one for each
combination of element types; if f16, bf16 or f32 are missing, one of them is converted to that
type. Each is compiled for every target with that pass alone and without the fallback. Passes that
are off by default for a target are enabled. The results go to docs/passes.json, the source of
docs/passes.md. Kernels need Triton. Without a name it continues with the passes that the file
lacks.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import math
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from iree.compiler import ir

from benchmarks.machines import GPUS
from mlirfuse import cost, targets
from mlirfuse.backend.compiler import TOOL, Compiler
from mlirfuse.backend.grouping import Grouped, group
from mlirfuse.core import CompileFailedError, Decision, MlirfuseError, Reason, UsageError, nearest
from mlirfuse.kernels import triton_compiler
from mlirfuse.options import FusionOptions
from mlirfuse.patterns import PASSES
from mlirfuse.pipelines import engine
from mlirfuse.structured.ir import ops
from mlirfuse.support.atomic_file import replacing
from mlirfuse.support.subprocess import run_tool
from mlirfuse.tools import sections

ROOT = Path(__file__).parents[1]

RESULTS = ROOT / "docs" / "passes.json"

LIT = ROOT / "lit_tests" / "patterns"

TARGETS = ("cpu:x86-64-v4", *GPUS)
"""The CPU is fixed, so that the result does not depend on this machine's."""

YES = "yes"

NO_MATCH = "-"
"""The pass finds no candidate."""

STOCK_FAILS = "stock_fails"
"""IREE cannot compile the example without our passes either."""

TIMEOUT = 60.0
"""Time limit of each step of the compiler, in seconds."""

_PIPELINE = re.compile(r"// RUN:.*?--pipeline='?([\w,]+)")

_PRECISION = re.compile(r"// RUN:.*?--float32-conv-precision=(\w+)")

_INDICES = frozenset({"i1", "i32", "i64", "index"})
"""Element types that are named only if an operator has no others."""

NEG_INF = {"f16": "0xFC00", "bf16": "0xFF80", "f32": "0xFF800000"}
"""Floating-point types of all examples -> negative infinity in MLIR's spelling."""

_WORKING = ("linalg.", "tensor.", "iree_linalg_ext.", "flow.dispatch.region", "hal.dispatch.extern")


@dataclasses.dataclass(frozen=True, slots=True)
class Example:
    """A function of a lit file in which the pass fires.

    Attributes:
      file: name of the lit file.
      function: symbol name.
      types: element types of the operands and, after an arrow, of the result if it differs.
      dynamic: whether an operand has a dynamic dimension.
      elements: number of elements of all operands.
      text: a module of the function and the globals of its section.
      retyped: whether the element type was converted.
    """

    file: str
    function: str
    types: str
    dynamic: bool
    elements: int
    text: str
    retyped: bool = False

    def __str__(self) -> str:
        """File and function."""
        return f"{self.file}@{self.function}{f' as {self.types}' if self.retyped else ''}"


def files(name: str) -> list[Path]:
    """The lit files of a pass, whose names begin with its name."""
    found = []
    for path in sorted(LIT.glob(f"{name}*.mlir")):
        owner = max((n for n in PASSES if path.stem.startswith(n)), key=len)
        if owner == name:
            found.append(path)
    return found


def pipeline(name: str) -> str:
    """The pass after those that it needs: the first pipeline of its lit file."""
    text = files(name)[0].read_text(encoding="utf-8")
    return next(p for p in _PIPELINE.findall(text) if name in p.split(","))


def switches(name: str) -> FusionOptions:
    """Switches that enable the pass alone, for all targets and sizes, without the fallback.

    The precision of convolutions is that of its lit file.
    """
    feature = PASSES[name].feature
    precision = _PRECISION.search(files(name)[0].read_text(encoding="utf-8"))
    items = pipeline(name).split(",")
    if hasattr(PASSES[name].options(), "any_size"):
        items[items.index(name)] = f"{name}{{any-size=true}}"
    return FusionOptions(
        pipeline=",".join(items),
        enable_pass=(name,),
        disable_feature=("fallback",),
        enable_feature=(feature,) if feature else (),
        numerics="any",
        float32_conv_precision=precision.group(1) if precision else "auto",
    )


def examples(name: str) -> list[Example]:
    """One example for each combination of element types, in their order.

    The pass fires in it on the most targets; among equals static and small ones are preferred.
    """
    options = switches(name)
    best: dict[str, tuple[tuple[int, bool, int, str], Example]] = {}
    for path in files(name):
        for section in sections.split(path.read_text(encoding="utf-8")):
            with ir.Context():
                module = ir.Module.parse(section)
                fired: list[str] = []
                for target in TARGETS:
                    _, report = engine.run(module, target=targets.parse(target), options=options)
                    fired += {d.function for d in report.decisions if _is_of(d, name) and d.taken}
                for found in _examples(module, path.name, set(fired)):
                    size = (-fired.count(found.function), found.dynamic, found.elements, path.name)
                    if found.types not in best or size < best[found.types][0]:
                        best[found.types] = size, found
    found = [best[types][1] for types in sorted(best)]
    return sorted([*found, *retyped(found)], key=lambda e: e.types)


def retyped(found: list[Example]) -> Iterator[Example]:
    """Examples of missing floating-point types, converted from those with a single type."""
    named = {word for e in found for word in re.split(" x | -> ", e.types)}
    for kind, neg_inf in NEG_INF.items():
        source = next((e for e in found if e.types in NEG_INF), None)
        if kind in named or source is None:
            continue
        text = source.text.replace(f"{NEG_INF[source.types]} :", f"{neg_inf} :")
        text = re.sub(rf"(?:(?<!\w)|(?<=[\d?]x)){source.types}\b", kind, text)
        with ir.Context(), contextlib.suppress(ir.MLIRError):
            ir.Module.parse(text)
            yield dataclasses.replace(source, types=kind, text=text, retyped=True)


def _is_of(decision: Decision, name: str) -> bool:
    return decision.pass_name == name


def _examples(module: ir.Module, file: str, names: set[str]) -> Iterator[Example]:
    for name in sorted(names):
        alone = engine.clone(module)
        for function in ops.functions(alone):
            if ops.symbol_name(function) != name:
                function.erase()
        (function,) = ops.functions(alone)
        kind = ir.FunctionType(function.attributes["function_type"].value)
        inputs = [t for t in kind.inputs if _is_tensor(t)]
        yield Example(
            file=file,
            function=name,
            types=_types(inputs, list(kind.results)),
            dynamic=any(not ir.RankedTensorType(t).has_static_shape for t in inputs),
            elements=sum(math.prod(_sizes(t)) for t in inputs),
            text=_standard(str(alone)),
        )


def _is_tensor(kind: ir.Type) -> bool:
    return isinstance(kind, ir.RankedTensorType)


def _sizes(kind: ir.Type) -> list[int]:
    tensor = ir.RankedTensorType(kind)
    return [
        ops.ASSUMED_DYNAMIC_SIZE if tensor.is_dynamic_dim(i) else tensor.get_dim_size(i)
        for i in range(tensor.rank)
    ]


def _types(inputs: list[ir.Type], results: list[ir.Type]) -> str:
    used, returned = ([*dict.fromkeys(map(_element, kinds))] for kinds in (inputs, results))
    values = [t for t in used if t not in _INDICES] or used or returned
    made = [t for t in returned[:1] if t not in values]
    return " -> ".join([" x ".join(sorted(values)), *made])


def _element(kind: ir.Type) -> str:
    return str(ir.RankedTensorType(kind).element_type if _is_tensor(kind) else kind)


def _standard(text: str) -> str:
    """The module with functions for which IREE generates an ABI."""
    return (
        text.replace("util.func public @", "func.func @")
        .replace("util.func private @", "func.func @")
        .replace("util.return", "return")
    )


@dataclasses.dataclass(slots=True)
class _Trial:
    """The examples of a pass on a target."""

    name: str
    compiler: Compiler
    folder: Path

    def outcomes(self, chosen: list[Example]) -> dict[str, str]:
        """Element types -> `yes`, the reason for a refusal, or `-`."""
        target, fusion = self.compiler.target, PASSES[self.name]
        built = target.name in fusion.targets and (
            target.cpu is not None or triton_compiler.supports(target)
        )
        if fusion.feature == "kernels" and not built:
            # Kernel passes record no decision there.
            refusal = f"{Reason.TARGET_UNSUPPORTED.code}: no kernels are built for {target}"
            return {e.types: refusal for e in chosen}
        found: dict[str, str] = {}
        waiting = chosen
        # Lit files hold IR after global optimization, which may change it beyond recognition: so it
        # is also compiled as it is.
        for level in ("global-optimization", "preprocessing"):
            grouped = self.grouped(waiting, level)
            fired = [e for e in waiting if self.outcome(grouped.report.decisions, e) == YES]
            for example in waiting:
                if example in fired:
                    found[example.types] = YES
                else:
                    outcome = self.outcome(grouped.report.decisions, example)
                    if found.get(example.types, NO_MATCH) == NO_MATCH:
                        found[example.types] = outcome
            hinted = grouped.hinted
            if fired and self.failure(grouped.path, fused=True, data_tiling=hinted) is not None:
                found |= {e.types: self.alone(e, level) for e in fired}
            waiting = [e for e in waiting if e not in fired]
            if not waiting:
                break
        return found

    def alone(self, example: Example, level: str) -> str:
        """`yes` if IREE compiles the example's groups, else the failure with IREE's message."""
        grouped = self.grouped([example], level)
        message = self.failure(grouped.path, fused=True, data_tiling=grouped.hinted)
        if message is None:
            return YES
        stock = self.failure(self.folder / "input.mlirbc", fused=False)
        return f"{Reason.FELL_BACK.code}: {message}" if stock is None else f"{STOCK_FAILS}: {stock}"

    def saved(self, example: Example) -> dict[str, list[int]]:
        """Dispatches and modelled bytes of a call, without and with the pass."""
        for level in ("global-optimization", "preprocessing"):
            grouped = self.grouped([example], level)
            if any(d.taken and _is_of(d, self.name) for d in grouped.report.decisions):
                break
        unfused = self.folder / "input.mlirbc"
        before = self.compiler.count(unfused, self.folder).dispatches
        made = self.compiler.generate(
            grouped.path, self.folder / "out.vmfb", fused=True, data_tiling=grouped.hinted
        )
        return {
            "dispatches": [before, made.dispatches],
            "bytes": [_traffic(unfused), _traffic(grouped.path)],
        }

    def grouped(self, chosen: list[Example], level: str) -> Grouped:
        """The examples in one module, up to a phase of the compiler, with their groups."""
        source, prepared = self.folder / "source.mlir", self.folder / "input.mlirbc"
        source.write_text(merged_module(chosen), encoding="utf-8")
        run_tool(
            TOOL,
            [
                str(source),
                "-o",
                str(prepared),
                "--iree-input-type=none",
                f"--compile-to={level}",
                "--emit-mlir-bytecode",
                *self.compiler.flags(fused=False),
            ],
            stage=level,
            timeout=TIMEOUT,
        )
        return group(
            prepared,
            self.folder / "grouped.mlirbc",
            target=self.compiler.target,
            options=self.compiler.options,
        )

    def failure(self, source: Path, *, fused: bool, data_tiling: bool = True) -> str | None:
        """IREE's message if it cannot compile the module; else None."""
        try:
            self.compiler.generate(
                source, self.folder / "out.vmfb", fused=fused, data_tiling=data_tiling
            )
        except CompileFailedError as error:
            return self.unplaced(str(error))
        return None

    def unplaced(self, message: str) -> str:
        """The message without the name of the temporary folder."""
        return message.replace(f"{self.folder}/", "")

    def outcome(self, decisions: Iterable[Decision], example: Example) -> str:
        """`yes` if the pass fires in the function, else the reason."""
        symbol = _symbol(example.function, example.types)
        ours = [
            d
            for d in decisions
            if _is_of(d, self.name) and d.function.removesuffix("$async") == symbol
        ]
        if any(d.taken for d in ours):
            return YES
        # The refused candidate with the most ops is the closest to a match.
        refused = max(ours, key=lambda d: len(d.ops), default=None)
        if refused is None or refused.reason is None:
            return NO_MATCH
        return self.unplaced(f"{refused.reason.code}: {refused.detail}")


def _symbol(name: str, types: str) -> str:
    """Unique symbol of an example's function: examples of a pass are compiled in one module."""
    return f"{name}_as_{re.sub(r'[^0-9a-z]+', '_', types)}"


def merged_module(chosen: list[Example]) -> str:
    """One module with the functions of several examples."""
    with ir.Context() as context:
        parts = [ir.Module.parse(e.text) for e in chosen]
        whole = ir.Module.create(ir.Location.unknown(context))
        for example, part in zip(chosen, parts, strict=True):
            names = [ops.symbol_name(op.operation) for op in part.body.operations]
            text = str(part)
            for name in names:
                text = re.sub(rf"@{re.escape(name)}\b", f"@{_symbol(name, example.types)}", text)
            for op in ir.Module.parse(text).body.operations:
                op.operation.clone(ir.InsertionPoint(whole.body))
        return str(whole)


def _traffic(path: Path) -> int:
    """Modelled bytes of the module's ops and groups, as separate dispatches."""
    with ir.Context():
        module = ir.Module.parseFile(str(path))
        return sum(
            cost.work_alone(op.operation).bytes
            for function in ops.functions(module)
            for block in ops.blocks(function)
            for op in block.operations
            if op.operation.name.startswith(_WORKING) and cost.does_work(op.operation)
        )


def entry(name: str, chosen: list[Example], on: Iterable[str] = TARGETS) -> dict[str, Any]:
    """The entry of a pass in docs/passes.json, for some of the targets."""
    types: dict[str, dict[str, Any]] = {e.types: {"example": str(e), "targets": {}} for e in chosen}
    saved: dict[str, Any] = {}
    for target in on:
        compiler = Compiler(targets.parse(target), switches(name), TIMEOUT)
        with tempfile.TemporaryDirectory() as folder:
            trial = _Trial(name, compiler, Path(folder))
            outcomes = trial.outcomes(chosen)
            for kind, outcome in outcomes.items():
                types[kind]["targets"][target] = outcome
            compiled = [e for e in chosen if outcomes[e.types] == YES]
            first = min(compiled, key=lambda e: e.types != "f32", default=None)
            if not saved and first is not None and target.split(":")[0] in PASSES[name].targets:
                saved = {"types": first.types, "target": target, **trial.saved(first)}
    return {"types": types, "saved": saved}


def main(arguments: list[str] | None = None) -> int:
    """Compiles the examples and writes the results; returns 1 if a pass fails."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.catalogue", description=__doc__)
    parser.add_argument("passes", nargs="*", metavar="PASS", help="only these, again")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FILE")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.passes if name not in PASSES]
    if unknown:
        raise UsageError(f"unknown pass '{unknown[0]}'{nearest(unknown[0], PASSES)}")
    found: dict[str, Any] = {"passes": {}}
    if given.results.exists():
        found = json.loads(given.results.read_text(encoding="utf-8"))
    found["iree"] = metadata.version("iree-base-compiler")
    status = 0
    for name in given.passes or [n for n in PASSES if n not in found["passes"]]:
        try:
            found["passes"][name] = entry(name, examples(name))
        except MlirfuseError as error:
            print(f"{name}: {error}", file=sys.stderr)
            status = 1
            continue
        for kind, record in found["passes"][name]["types"].items():
            print(name, kind, " ".join(a.partition(":")[0] for a in record["targets"].values()))
        with replacing(given.results) as path:
            text = json.dumps(found, indent=1, sort_keys=True)
            path.write_text(f"{text}\n", encoding="utf-8")
    return status


if __name__ == "__main__":
    raise SystemExit(main())
