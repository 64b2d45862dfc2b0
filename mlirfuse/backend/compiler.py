"""The phases of `iree-compile`: to global optimization, from there to a program, and counting."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from iree.compiler import ir

from mlirfuse.backend import final_program, gpu_pipelines, in_place_updates, statistics
from mlirfuse.backend.statistics import Statistics
from mlirfuse.builders import channels_last, codegen_repairs, empty_grids
from mlirfuse.core import UsageError
from mlirfuse.kernels import triton_compiler
from mlirfuse.options import OWN_FEATURES, FusionOptions
from mlirfuse.structured.recognize import convolutions
from mlirfuse.support import stages
from mlirfuse.support.contained import LOG, described, trace
from mlirfuse.support.subprocess import run_tool
from mlirfuse.targets.base import Target

TOOL = "iree-compile"

Answer = TypeVar("Answer")

# The op that a diagnostic is about can be a whole function; we show the line of the error.
_QUIET = "--mlir-print-op-on-diagnostic=false"

CONTINUE = "--compile-from=global-optimization"

_KEEP_F64 = "--iree-input-demote-f64-to-f32=false"

_FAST_MIN_MAX = "--iree-llvmcpu-use-fast-min-max-ops"


@dataclasses.dataclass(frozen=True, slots=True)
class Compiler:
    """`iree-compile` for one target with one set of options.

    Attributes:
      target: the machine to compile for.
      options: the switches, of which the code generation features matter here.
      timeout: seconds that each run of `iree-compile` may take; None for no limit.
      keeps_layout: whether convolutions keep the order of channels that the model has.
    """

    target: Target
    options: FusionOptions
    timeout: float | None = None
    keeps_layout: bool = False

    @property
    def moves_channels(self) -> bool:
        """Whether `normalize` makes channels the last dimension of images, for our kernels."""
        available = self.target.cpu is not None or triton_compiler.available(self.target)
        return self.options.feature("kernels") and available and not self.keeps_layout

    @property
    def _distinguishes_convolutions(self) -> bool:
        """Whether our kernels multiply f32 in another way for convolutions than for matmuls."""
        convolution, matmul = (
            self.options.float32_conv_precision,
            self.options.float32_matmul_precision,
        )
        kernels = self.options.feature("kernels") and triton_compiler.available(self.target)
        return kernels and convolution not in ("auto", matmul)

    def flags(self, *, fused: bool, data_tiling: bool = True) -> tuple[str, ...]:
        """Arguments for the target and the features.

        Args:
          fused: whether the program went through our passes; only then it gets the flags of code
            generation that we add.
          data_tiling: False to leave data tiling out whatever the options are.

        Raises:
          UsageError: a feature is off that this target cannot do without.
        """
        known = {**dict.fromkeys(OWN_FEATURES, ()), **self.target.feature_flags}
        for feature in self.options.disable_feature:
            if feature not in known:
                raise UsageError(
                    f"--disable-feature={feature} is not available for target {self.target}, "
                    f"whose code generator has no such switch (known: {', '.join(sorted(known))})"
                )
        if not fused:
            return self.target.flags
        off = {name for name in known if not self.options.feature(name)}
        off |= set() if data_tiling else {"data_tiling"}
        left_out = {flag for name in off for flag in known[name]}
        added = (flag for flag in self.target.codegen_flags if flag not in left_out)
        return (*self.target.flags, *added, *self._fast_min_max())

    def _fast_min_max(self) -> tuple[str, ...]:
        """The flag for maximum and minimum without regard to NaN, which `numerics=any` allows."""
        fast = self.target.name == "cpu" and self.options.numerics == "any"
        return (_FAST_MIN_MAX,) if fast else ()

    def _input(self, input_type: str, *, keeps_f64: bool) -> tuple[str, ...]:
        """The arguments of the input phase."""
        start = f"--iree-input-type={input_type}"
        return (start, _KEEP_F64) if keeps_f64 and not self.target.demotes_f64 else (start,)

    def normalize(
        self,
        source: Path,
        output: Path,
        *,
        input_type: str,
        keeps_f64: bool = False,
        has_angles: bool = False,
    ) -> None:
        """Compiles up to and including IREE's global optimization, into bytecode.

        Args:
          source: the imported model.
          output: the file for the bytecode.
          input_type: value of `--iree-input-type`.
          keeps_f64: whether f64 stays f64 where the target has it.
          has_angles: whether the model has sines, cosines or tangents, of which IREE computes
            constant ones already in this phase.

        Raises:
          CompileFailedError: the compiler refused, died or ran out of time.
        """
        stages.show("IREE's global optimization")
        if (has_angles or keeps_f64) and self.target.name == "cpu":
            rewrite = functools.partial(
                codegen_repairs.repair_constants, has_angles=has_angles, keeps_f64=keeps_f64
            )
            repaired = output.with_suffix(".constants")
            source = self._rewritten(source, repaired, "functions of constants", rewrite)
        moves_channels = self.moves_channels and not _asked(source, channels_last.has_open_images)
        if moves_channels and self.target.cpu is not None:
            moved = output.with_suffix(".channels")
            source = self._rewritten(source, moved, "channels_last", channels_last.move_channels)
        if self._distinguishes_convolutions:
            named = output.with_suffix(".named")
            source = self._rewritten(
                source, named, "names of convolutions", convolutions.name_convolutions
            )
        self._run(
            "global-optimization",
            source,
            output,
            *self._input(input_type, keeps_f64=keeps_f64),
            "--compile-to=global-optimization",
            "--emit-mlir-bytecode",
            *self.flags(fused=False),
            *(triton_compiler.CHANNELS_LAST if moves_channels else ()),
        )

    def generate(
        self,
        source: Path,
        output: Path,
        *,
        fused: bool,
        data_tiling: bool = True,
        input_type: str | None = None,
        keeps_f64: bool = False,
        phases: Path | None = None,
    ) -> Statistics:
        """Compiles a module into a program.

        Args:
          source: the module from `normalize` or from the engine; the imported model when
            `input_type` is given.
          output: the file for the program, a `.vmfb`.
          fused: whether our passes ran on it.
          data_tiling: whether IREE may pack operands; without a marked contraction in the module it
            chooses by a rule of its own, which makes attention slow.
          input_type: value of `--iree-input-type`, to run all phases.
          keeps_f64: as for `normalize`.
          phases: folder for the IR after each phase, of which `final_program.read` makes the list
            of kernels.

        Returns:
          The dispatches of a call.

        Raises:
          CompileFailedError: as for `normalize`.
        """
        stages.show("IREE's code generation")
        if not fused and input_type is None and codegen_repairs.needed(self.target):
            source = self._rewritten(
                source,
                output.with_suffix(".mlirbc"),
                "codegen_repairs",
                lambda module: codegen_repairs.repair(
                    module, self.target, exact=self.options.numerics == "exact"
                ),
            )
        counted = output.with_suffix(".csv")
        start = self._input(input_type, keeps_f64=keeps_f64) if input_type else (CONTINUE,)
        flags = self.flags(fused=fused, data_tiling=data_tiling)
        if input_type is None:
            safe = _asked(source, functools.partial(self._safe_flags, fused=fused))
            flags = (*flags, *(flag for flag in safe if not _is_set(flag, flags)))
        written = () if phases is None else final_program.flags(phases)
        if input_type is None and self._has_dynamic_grids(source):
            source = self._skipping_empty_grids(source, output, (*start, *flags), written)
            start = ("--compile-from=flow",)
        arguments = (*start, *statistics.flags(counted), *flags, *written)
        self._run("codegen", source, output, *arguments)
        return statistics.read(counted)

    def _safe_flags(self, module: ir.Module, *, fused: bool) -> tuple[str, ...]:
        """The flags with which IREE computes a module right."""
        kernels = gpu_pipelines.safe_flags(module) if fused and self.target.name == "cuda" else ()
        try:
            ordered = in_place_updates.safe_flags(module)
        except Exception as error:
            if not self.options.feature("fallback"):
                raise
            LOG.warning("in_place_updates left out: %s", described(error))
            trace(error)
            ordered = in_place_updates.IN_ORDER
        return (*kernels, *ordered)

    def _has_dynamic_grids(self, source: Path) -> bool:
        """Whether dispatches of a module may have no workgroups, which CUDA refuses to launch."""
        return self.target.name == "cuda" and _asked(source, empty_grids.has_dynamic_sizes)

    def _skipping_empty_grids(
        self, source: Path, output: Path, arguments: tuple[str, ...], written: tuple[str, ...]
    ) -> Path:
        """Compiles a module up to its dispatches, of which none is launched without workgroups.

        Args:
          source: a module at global-optimization level.
          output: the file for the program, next to which the module is written.
          arguments: those of `iree-compile`.
          written: those by which it writes its phases, without large constants; a module with them
            would lack the constants, too.
        """
        formed, skipping = (output.with_suffix(f".{name}.mlirbc") for name in ("flow", "skipping"))
        stops = ("--compile-to=flow", "--emit-mlir-bytecode")
        for added in dict.fromkeys((written, ())):
            self._run("dispatch-creation", source, formed, *arguments, *added, *stops)
        return self._rewritten(formed, skipping, "empty_grids", empty_grids.repair)

    def _rewritten(
        self, source: Path, output: Path, part: str, rewrite: Callable[[ir.Module], bool]
    ) -> Path:
        """The module rewritten into `output`; `source` where nothing is, or the part raises.

        `output` may be the file of `source`, whose constants MLIR maps from it.
        """
        staged = output.with_name(f"{output.name}.staged")
        try:
            with ir.Context():
                module = ir.Module.parseFile(os.fspath(source))
                if not rewrite(module):
                    return source
                with staged.open("wb") as file:
                    module.operation.write_bytecode(file)
                staged.replace(output)
        except Exception as error:
            if not self.options.feature("fallback"):
                raise
            LOG.warning("%s left out: %s", part, described(error))
            trace(error)
            return source
        return output

    def count(self, source: Path, workdir: Path, *, phases: Path | None = None) -> Statistics:
        """The dispatches of a call without generating code, in a third of the time.

        Args:
          source: bytecode at global-optimization level.
          workdir: an existing directory for temporary files.
          phases: as for `generate`; there are none after scheduling.

        Raises:
          CompileFailedError: as for `normalize`.
        """
        counted = workdir / "count.csv"
        self._run(
            "dispatch-creation",
            source,
            workdir / "count.mlirbc",
            CONTINUE,
            "--compile-to=stream",
            "--emit-mlir-bytecode",
            *statistics.flags(counted),
            *self.flags(fused=False),
            *(() if phases is None else final_program.flags(phases)),
        )
        return statistics.read(counted)

    def _run(self, stage: str, source: Path, output: Path, *arguments: str) -> None:
        run_tool(
            TOOL,
            [os.fspath(source), "-o", os.fspath(output), _QUIET, *arguments],
            stage=stage,
            timeout=self.timeout,
        )


def _is_set(flag: str, flags: Sequence[str]) -> bool:
    """Whether flags have one of the same name, which IREE takes once."""
    name = flag.partition("=")[0]
    return any(other.partition("=")[0] == name for other in flags)


def _asked(source: Path, question: Callable[[ir.Module], Answer]) -> Answer:
    """The answer to a question about the module of a file."""
    with ir.Context():
        return question(ir.Module.parseFile(os.fspath(source)))
