"""Writes a failing program to a folder, with a script that needs only IREE's and mlirfuse's tools.

FOLDER/before.mlir      the ops before the rewrite, at IREE's global-optimization level
FOLDER/after.mlir       the rewritten ops, where mlirfuse-opt does not reproduce the rewrite
FOLDER/input0.bin       the arguments, in the format of iree-run-module
FOLDER/reproduce.sh     exits with 0 if the failure shows, with 1 if it does not
"""

from __future__ import annotations

import dataclasses
import os
import shlex
import shutil
from pathlib import Path

import numpy as np
from iree.compiler import ir

from mlirfuse.backend.compiler import CONTINUE, TOOL, Compiler
from mlirfuse.debug.oracle import Failure, Subject, Verdict
from mlirfuse.options import FusionOptions
from mlirfuse.runtime.arrays import dtype_name

SCRIPT = "reproduce.sh"

BEFORE = "before.mlir"

AFTER = "after.mlir"

FILES = (BEFORE, AFTER, SCRIPT)
"""Names of the files that hold modules and the script."""


@dataclasses.dataclass(frozen=True, slots=True)
class Reproducer:
    """A failing program with its inputs and switches.

    Attributes:
      compiler: the compiler and target.
      failure: the kind of failure.
      subject: the module before the rewrite, and its inputs.
      verdict: the observed failure.
      hinted: whether it is compiled with data tiling.
      alone: whether it holds the culprit's match alone, and not the whole model.
      options: switches of `mlirfuse-opt` that reproduce the rewrite; None if `rewritten` is given.
      rewritten: file of the rewritten module, where `mlirfuse-opt` does not reproduce it.
    """

    compiler: Compiler
    failure: Failure
    subject: Subject
    verdict: Verdict
    hinted: bool
    alone: bool
    options: FusionOptions | None = None
    rewritten: Path | None = None

    def write(self, folder: Path) -> Path:
        """Writes the files.

        Args:
          folder: directory, created if missing; files of the same names are replaced.

        Returns:
          The script.
        """
        folder.mkdir(parents=True, exist_ok=True)
        _write_text(self.subject.source, folder / BEFORE)
        if self.rewritten is not None:
            shutil.copyfile(self.rewritten, folder / AFTER)
        for index, array in enumerate(self.subject.inputs):
            (folder / f"input{index}.bin").write_bytes(np.ascontiguousarray(array).tobytes())
        script = folder / SCRIPT
        script.write_text("\n".join([*self._script(), ""]), encoding="utf-8")
        script.chmod(0o755)
        return script

    # --- the script ------------------------------------------------------------------------------

    def _script(self) -> list[str]:
        lines = [
            "#!/bin/sh",
            "# Exits with 0 if the failure shows, with 1 if it does not. The observed failure:",
            f"#   {self.verdict.message}",
            'cd "$(dirname "$0")" || exit 2',
            "export MLIRFUSE_CONFIG= MLIRFUSE_FLAGS=",
        ]
        if self.options is not None:
            lines += _loading(self.options)
            words = ["mlirfuse-opt", BEFORE, f"--target={self.compiler.target}"]
            words += [*_absolute(self.options).to_switches(), "-o", AFTER]
            lines.append(f"{shlex.join(words)} || exit 2")
        return [*lines, *getattr(self, f"_{self.failure.kind}")()]

    def _compile(self) -> list[str]:
        return [f"! {self._compiled('after', fused=True)}"]

    def _crash(self) -> list[str]:
        if self.verdict.stage == "codegen":
            return self._compile()
        return [f"{self._compiled('after', fused=True)} || exit 2", f"! {self._run('after')}"]

    def _numbers(self) -> list[str]:
        outputs = [f"--output=@unfused{i}.bin" for i in range(len(self.subject.signature.outputs))]
        wrong = self.verdict.result or 0
        expected = [
            f"--expected_output={spec}=@unfused{i}.bin"
            if i == wrong
            else "--expected_output=(ignored)"
            for i, spec in enumerate(self.subject.signature.outputs)
        ]
        kind = self.subject.signature.outputs[wrong].dtype
        allowed = ["--equality_mode=exact"]
        if kind in ("f16", "bf16", "f32", "f64"):
            allowed = [
                f"--expected_{kind}_threshold={self.verdict.threshold:g}",
                "--expected_rtol=0",
            ]
        return [
            *self._both(),
            f"{self._run('unfused', *outputs)} || exit 2",
            f"! {self._run('after', *expected, *allowed)}",
        ]

    def _slower(self) -> list[str]:
        timed = [
            f"{name}=$(iree-benchmark-module {self._called(name)} --benchmark_format=csv"
            " | tail -n 1 | cut -d, -f3)"
            for name in ("unfused", "after")
        ]
        return [
            *self._both(),
            *timed,
            'echo "$after ms, unfused $unfused ms"',
            f'awk "BEGIN {{ exit !($after > {self.failure.factor:g} * $unfused) }}"',
        ]

    def _command(self) -> list[str]:
        words = [w.replace("%s", "after.vmfb") for w in shlex.split(self.failure.command)]
        return [f"{self._compiled('after', fused=True)} || exit 2", f"! {shlex.join(words)}"]

    def _both(self) -> list[str]:
        return [
            f"{self._compiled('after', fused=True)} || exit 2",
            f"{self._compiled('unfused', fused=False)} || exit 2",
        ]

    def _compiled(self, name: str, *, fused: bool) -> str:
        flags = self.compiler.flags(fused=fused, data_tiling=self.hinted)
        source = AFTER if fused else BEFORE
        return shlex.join([TOOL, source, "-o", f"{name}.vmfb", CONTINUE, *flags])

    def _run(self, name: str, *words: str) -> str:
        return f"iree-run-module {self._called(name)} {shlex.join(words)}"

    def _called(self, name: str) -> str:
        arguments = [
            f"--input={'x'.join([*map(str, a.shape), dtype_name(a)])}=@input{i}.bin"
            for i, a in enumerate(self.subject.inputs)
        ]
        return shlex.join(
            [
                f"--module={name}.vmfb",
                f"--device={self.compiler.target.device}",
                f"--function={self.subject.signature.function}",
                *arguments,
            ]
        )


def _loading(options: FusionOptions) -> list[str]:
    """Lets Python find modules of passes in the current directory."""
    if not options.load_pass:
        return []
    return [f'export PYTHONPATH={shlex.quote(os.getcwd())}"${{PYTHONPATH:+:$PYTHONPATH}}"']


def _absolute(options: FusionOptions) -> FusionOptions:
    files = tuple(
        os.path.abspath(spec) if spec.endswith((".mlir", ".mlirbc")) else spec
        for spec in options.load_pass
    )
    return dataclasses.replace(options, load_pass=files)


def _write_text(source: Path, output: Path) -> None:
    """Copies a module as text, with its source locations."""
    with ir.Context():
        module = ir.Module.parseFile(os.fspath(source))
        text = module.operation.get_asm(enable_debug_info=True)
    output.write_text(text, encoding="utf-8")
