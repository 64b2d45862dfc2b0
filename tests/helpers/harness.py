"""Compiles many small functions at once, fused and not fused, and compares their results.

A `Case` is one function; a `Batch` is a module of many, because the start of the compiler costs as
much as several functions. `Batch.run` takes the module through IREE's global optimization, runs
the engine on it, compiles the result and the untouched module, calls both on every set of inputs,
and returns one `Outcome` a case. `Outcome.check` is the judgement.

The tolerance of a result: `ulps` times the sum of two things. One is the unit in the last place
of the result's element type at the largest magnitude of the row, since a sum of large and small
addends cannot be exact in its small results. The other is the change of the exact result when every
input is changed by one rounding of the type that the function computes in: no order of summation
can be better, as for a variance of 1 with a mean of 1e4. Inputs are also changed by the
smallest normal number too, because IREE's CPU threads take subnormal numbers for zero.

Fused and unfused programs do the same operations and yet differ within that: IREE picks other tile
sizes, so that a reduction adds its elements in another order, and contracts other multiplies and
adds. On inputs whose sums are exact in any order they have to agree bit by bit.

Integer results are rounded: at a tie they may be off by one, in addition to the change of the exact
result; not at all on inputs whose sums are exact.
"""

from __future__ import annotations

import dataclasses
import gc
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import iree.runtime as rt
import ml_dtypes
import numpy as np
from iree.compiler import ir

from mlirfuse import targets
from mlirfuse.core import Report
from mlirfuse.options import FusionOptions
from mlirfuse.pipelines import engine
from mlirfuse.support.subprocess import run_tool
from mlirfuse.targets.base import Target

COMPILE_SECONDS = 120
"""Time limit of one run of the compiler over a batch."""

Arrays = tuple[np.ndarray, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """One function and its expected results.

    Attributes:
      name: its symbol.
      text: the `func.func` in full, with nothing that refers to other functions.
      inputs: name of a set -> arguments.
      reference: the results from the arguments, all float arguments in float64.
      fires: pass name -> rewrites that it applies in this function; passes of the batch's pipeline
        that are not named apply none.
      ulps: how far a result may be off, see the module's docstring.
      computed: element type that the function computes in.
      hostile: names of sets that overflow or hold infinities and NaNs. They are compared with the
        unfused program alone, which has to have the same NaNs and infinities.
      exact: names of sets on which fused and unfused have to agree bit by bit, and integers with
        the reference too.
      dispatches: dispatches of the fused program; not checked when None.
    """

    name: str
    text: str
    inputs: Mapping[str, Arrays]
    reference: Callable[..., Arrays]
    fires: Mapping[str, int]
    ulps: float
    computed: str = "f32"
    hostile: frozenset[str] = frozenset()
    exact: frozenset[str] = frozenset()
    dispatches: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """The outcome of one case.

    Attributes:
      case: the case.
      fired: pass name -> rewrites applied in this function.
      refused: reasons of the candidates of this function that were refused, as code and detail.
      fused: name of an input set -> results of the fused program.
      unfused: name of an input set -> results of IREE alone.
      dispatches: numbers of dispatches, `fused` and `unfused`.
    """

    case: Case
    fired: Mapping[str, int]
    refused: Sequence[tuple[str, str]]
    fused: Mapping[str, Arrays]
    unfused: Mapping[str, Arrays]
    dispatches: Mapping[str, int]

    def check(self) -> None:
        """Asserts that the passes fired as expected and that the numbers are right."""
        case = self.case
        assert dict(self.fired) == {n: c for n, c in case.fires.items() if c}, self.refused
        if case.dispatches is not None:
            assert self.dispatches["fused"] == case.dispatches, self.dispatches
        for name, arguments in case.inputs.items():
            exact, slack = _expected(case, arguments)
            for number, (fused, unfused) in enumerate(
                zip(self.fused[name], self.unfused[name], strict=True)
            ):
                place = f"{case.name}, inputs '{name}', result {number}"
                allowed = _allowed(case, name, exact[number], slack[number], fused.dtype)
                assert fused.shape == unfused.shape == exact[number].shape, place
                assert fused.dtype == unfused.dtype, place
                if name in case.exact:
                    assert fused.tobytes() == unfused.tobytes(), f"{place}: not bit-equal"
                near = np.abs(exact[number]) + allowed >= _largest(fused.dtype)
                _check_special(fused, unfused, exact[number], near, name in case.hostile, place)
                pairs = [("fused against unfused", fused, unfused)]
                if name not in case.hostile:
                    pairs.append(("unfused against float64", unfused, exact[number]))
                    pairs.append(("fused against float64", fused, exact[number]))
                for title, a, b in pairs:
                    worst = case.ulps * _worst(a, b, allowed)
                    assert worst <= case.ulps, f"{place}: {title}: {worst:.2f} > {case.ulps} ulps"


LIT = Path(__file__).parents[2] / "lit_tests" / "patterns"


def section(name: str, *passes: str) -> str:
    """The part of a lit file of one of the passes with that function, with aliases of its own."""
    for file in (f for one in passes for f in sorted(LIT.glob(f"{one}*.mlir"))):
        for text in file.read_text(encoding="utf-8").split("// -----"):
            if f"func.func @{name}(" in text:
                aliases = "|".join(re.findall(r"^#(\w+) =", text, re.MULTILINE))
                return re.sub(rf"#({aliases})\b", rf"#{name}_\1", text)
    raise KeyError(name)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Batch:
    """Functions that are compiled together.

    Attributes:
      cases: the functions, each with its own symbol.
      pipeline: value of `--pipeline`.
      target: value of `--target`, or a target.
      input_type: value of `--iree-input-type`: `none` for linalg, `stablehlo`.
      switches: further fields of `FusionOptions`.
      parameters: key in the scope `model` -> what the programs get from an archive.
    """

    cases: Sequence[Case]
    pipeline: str
    target: str | Target = "cpu"
    input_type: str = "none"
    switches: Mapping[str, object] = dataclasses.field(default_factory=dict)
    parameters: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)

    def run(self) -> dict[str, Outcome]:
        """Compiles and calls everything; name of a case -> its outcome."""
        target = targets.parse(self.target)
        with tempfile.TemporaryDirectory() as name:
            work = Path(name)
            report = self._fuse(target, work)
            with ThreadPoolExecutor(2) as pool:
                done = {
                    kind: pool.submit(_compile, work / f"{kind}.mlirbc", target, kind == "fused")
                    for kind in ("fused", "unfused")
                }
                programs = {kind: future.result() for kind, future in done.items()}
            archive = work / "model.irpa"
            if self.parameters:
                rt.save_archive_file(dict(self.parameters), archive)
            called = {
                kind: call(program, target.device, self.cases, archive if self.parameters else None)
                for kind, (program, _) in programs.items()
            }
            if target.device == "vulkan":
                gc.collect()  # frees the device, which is in cycles
        return {
            case.name: Outcome(
                case=case,
                fired=_fired(report, case.name),
                refused=[
                    (d.reason.code, d.detail)
                    for d in report.decisions
                    if d.reason is not None and _owner(d.function) == case.name
                ],
                fused=called["fused"][case.name],
                unfused=called["unfused"][case.name],
                dispatches={k: counts.get(case.name, 0) for k, (_, counts) in programs.items()},
            )
            for case in self.cases
        }

    def compiled(self) -> dict[str, dict[str, int]]:
        """Compiles for a target that need not be here; name of a case -> what fired in it."""
        target = targets.parse(self.target)
        with tempfile.TemporaryDirectory() as name:
            report = self._fuse(target, Path(name))
            _compile(Path(name) / "fused.mlirbc", target, True)
        return {case.name: _fired(report, case.name) for case in self.cases}

    def _fuse(self, target: Target, work: Path) -> Report:
        """Writes `unfused.mlirbc` and `fused.mlirbc`, both after global optimization."""
        source = work / "batch.mlir"
        source.write_text("\n".join(case.text for case in self.cases), encoding="utf-8")
        run_tool(
            "iree-compile",
            [
                str(source),
                f"--iree-input-type={self.input_type}",
                "--compile-to=global-optimization",
                "--emit-mlir-bytecode",
                *target.flags,
                "-o",
                str(work / "normalized.mlirbc"),
            ],
            stage="global-optimization",
            timeout=COMPILE_SECONDS,
        )
        with ir.Context() as context:
            module = ir.Module.parse((work / "normalized.mlirbc").read_bytes(), context)
            switches = {
                "unfused": FusionOptions(pipeline="none"),
                "fused": FusionOptions(pipeline=self.pipeline, **self.switches),
            }
            for kind, options in switches.items():
                made, report = engine.run(module, target=target, options=options)
                with (work / f"{kind}.mlirbc").open("wb") as file:
                    made.operation.write_bytecode(file)
        return report


def _compile(path: Path, target: Target, ours: bool) -> tuple[bytes, Mapping[str, int]]:
    """Compiles past global optimization; returns the program and each function's dispatches."""
    phases = path.with_suffix(".phases")
    program = path.with_suffix(".vmfb")
    run_tool(
        "iree-compile",
        [
            str(path),
            "--compile-from=global-optimization",
            f"--dump-compilation-phases-to={phases}",
            *target.flags,
            *(target.codegen_flags if ours else ()),
            "-o",
            str(program),
        ],
        stage="codegen",
        timeout=COMPILE_SECONDS,
    )
    flow = next(phases.glob("*.flow.mlir")).read_text(encoding="utf-8")
    return program.read_bytes(), dispatches(flow)


_FUNCTION = re.compile(r"^\s*util\.func [^@]*@\"?([\w$.]+)", re.MULTILINE)


def dispatches(flow: str) -> dict[str, int]:
    """Dispatches of each function in the text of IREE's flow phase, those at load time left out."""
    parts = _FUNCTION.split(flow)[1:]
    return {
        _owner(name): body.partition("util.initializer")[0].count(" flow.dispatch ")
        for name, body in zip(parts[::2], parts[1::2], strict=True)
    }


def _owner(function: str) -> str:
    return function.removesuffix("$async")


def _fired(report: Report, name: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    for decision in report.decisions:
        if decision.taken and _owner(decision.function) == name:
            counts[decision.pass_name] = counts.get(decision.pass_name, 0) + 1
    return counts


def call(
    program: bytes, device: str, cases: Sequence[Case], archive: Path | None = None
) -> dict[str, dict[str, Arrays]]:
    """Calls every function on each of its input sets; `archive` holds the program's parameters."""
    # A software Vulkan device has to be freed: `software_vulkan`.
    config = rt.Config(device=rt.get_device(device, cache=device != "vulkan"))
    context = rt.SystemContext(config=config)
    if archive is not None:
        held = rt.ParameterIndex()
        held.load(str(archive))
        provider = held.create_provider(scope="model")
        context.add_vm_module(rt.create_io_parameters_module(context.instance, provider))
    context.add_vm_module(rt.VmModule.copy_buffer(context.instance, program))
    (module,) = (m for name, m in context.modules.items() if name not in ("hal", "io_parameters"))
    results: dict[str, dict[str, Arrays]] = {}
    for case in cases:
        results[case.name] = {}
        for name, arguments in case.inputs.items():
            got = module[case.name](*arguments)
            several = got if isinstance(got, list | tuple) else (got,)
            results[case.name][name] = tuple(_to_host(config.device, r) for r in several)
    return results


def _to_host(device: rt.HalDevice, array: rt.DeviceArray) -> np.ndarray:
    """A copy through a staging buffer.

    `DeviceArray.to_host` imports the result's host memory where the driver can; on Vulkan that
    fails, because numpy's memory is not aligned to a page.
    """
    view = array._buffer_view
    source = view.get_buffer()
    staging = device.allocator.allocate_buffer(
        memory_type=int(rt.MemoryType.HOST_LOCAL | rt.MemoryType.DEVICE_VISIBLE),
        allowed_usage=int(rt.BufferUsage.TRANSFER_TARGET | rt.BufferUsage.MAPPING_SCOPED),
        allocation_size=source.byte_length(),
    )
    done = device.create_semaphore(0)
    device.queue_copy(
        source,
        staging,
        wait_semaphores=rt.HalFence.create_at(done, 0),
        signal_semaphores=rt.HalFence.create_at(done, 1),
    )
    rt.HalFence.create_at(done, 1).wait()
    mapped = staging.map()
    return np.array(mapped.asarray(view.shape, array.dtype))


# --- judgement -----------------------------------------------------------------------------------


FLOATS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32}
"""Element types in MLIR's spelling -> numpy's."""

PERTURBATIONS = 3
"""Random changes of the inputs from which the slack of a result is the largest."""


def _is_float(array: np.ndarray) -> bool:
    return array.dtype == ml_dtypes.bfloat16 or np.issubdtype(array.dtype, np.floating)


def _expected(case: Case, arguments: Arrays) -> tuple[Arrays, Arrays]:
    """The exact results, and how far they move when every input is rounded once, row by row."""
    info = ml_dtypes.finfo(FLOATS[case.computed])
    rounding, smallest = float(info.eps), float(info.smallest_normal)
    wide = [a.astype(np.float64) if _is_float(a) else a for a in arguments]
    generator = np.random.default_rng(7)
    with np.errstate(all="ignore"):
        exact = case.reference(*wide)
        slack = [np.zeros_like(r) for r in exact]
        for _ in range(PERTURBATIONS):
            changed = [
                w + (rounding * np.abs(w) + smallest) * generator.choice([-1.0, 1.0], w.shape)
                if _is_float(w)
                else w
                for w in wide
            ]
            for number, moved in enumerate(case.reference(*changed)):
                step = np.nan_to_num(np.abs(moved - exact[number]), nan=0.0, posinf=0.0)
                slack[number] = np.maximum(slack[number], _row_max(step))
    return exact, tuple(slack)


def _row_max(array: np.ndarray) -> np.ndarray:
    rows = np.atleast_1d(array)
    return np.broadcast_to(rows.max(axis=-1, keepdims=True, initial=0.0), rows.shape).reshape(
        array.shape
    )


def _allowed(
    case: Case, name: str, exact: np.ndarray, slack: np.ndarray, dtype: np.dtype
) -> np.ndarray:
    """How far a result may be off."""
    if np.issubdtype(dtype, np.integer):
        return np.full_like(slack, 0.5) if name in case.exact else 1.0 + slack
    return case.ulps * (_unit(exact, dtype) + slack)


def _unit(exact: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The unit in the last place at each row's largest magnitude."""
    info = ml_dtypes.finfo(dtype)
    finite = np.where(np.isfinite(exact), np.abs(exact), 0.0)
    return np.maximum(_row_max(finite), float(info.smallest_normal)) * float(info.eps)


def _largest(dtype: np.dtype) -> float:
    """The largest finite number."""
    return float(ml_dtypes.finfo(dtype).max) if _is_float(np.empty(0, dtype)) else np.inf


def _check_special(
    fused: np.ndarray,
    unfused: np.ndarray,
    exact: np.ndarray,
    near: np.ndarray,
    hostile: bool,
    place: str,
) -> None:
    """Checks that NaN and infinities are alike; a result `near` the largest number may be both."""
    wide = [r.astype(np.float64) for r in (fused, unfused)]
    for title, test in (("NaN", np.isnan), ("+inf", np.isposinf), ("-inf", np.isneginf)):
        ours, theirs = (test(r) for r in wide)
        differ = (ours != theirs) & (test is np.isnan or ~near)
        assert not differ.any(), f"{place}: fused and unfused differ in {title}"
        if not hostile:
            assert np.array_equal(ours, test(exact)), f"{place}: {title} where float64 has none"


def _worst(a: np.ndarray, b: np.ndarray, allowed: np.ndarray) -> float:
    """The largest difference over the tolerance, where both are finite."""
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    both = np.isfinite(wide_a) & np.isfinite(wide_b)
    with np.errstate(invalid="ignore"):
        return float(np.where(both, np.abs(wide_a - wide_b) / allowed, 0.0).max(initial=0.0))
