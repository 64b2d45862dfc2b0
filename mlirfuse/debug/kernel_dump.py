"""Writes the code of each kernel of a model into a folder of its own.

DIR/00_matmul_aa073792d4b2/kernel.json      launch parameters, operands, measured time
source.mlir      IREE's executable; of ours the vector dialect
configured.mlir  the same with IREE's choice of tiles and pipeline
source.py        the Triton source of a kernel of ours
kernel.ll, .s    LLVM IR and assembly of its function
kernel.ptx, .spv, .spirv.mlir, .rocmasm
"""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mlirfuse import targets
from mlirfuse.kernels import triton_compiler

if TYPE_CHECKING:
    from mlirfuse.profiling.kernel_profile import KernelProfile
    from mlirfuse.profiling.measured import Measured
    from mlirfuse.targets.base import Target

_FLAG = "--iree-hal-dump-executable-files-to"

_UNSAFE = re.compile(r"[^\w.$-]")

_MAX_NAME = 100
"""Characters of a kernel's name in the name of its folder."""


def dumping(target: str | Target, folder: Path) -> Target:
    """The target with which IREE writes the files of every executable.

    Args:
      target: the target of the program.
      folder: the folder for IREE's files.
    """
    found = targets.parse(target)
    return dataclasses.replace(found, flags=(*found.flags, f"{_FLAG}={folder}"))


def write(dumped: Path, profile: Measured, folder: Path, call: Sequence[str]) -> list[Path]:
    """Sorts IREE's files by kernel.

    Args:
      dumped: IREE's files of a program, compiled for a target of `dumping`.
      profile: the profile of the program, in whose order the folders are.
      folder: an existing folder, in which each kernel gets one.
      call: the command that calls the program, for the command lines of other profilers.

    Returns:
      The folders, in order.
    """
    texts = {
        path: path.read_text(encoding="utf-8", errors="replace")
        for path in sorted(dumped.iterdir())
        if path.suffix in (".mlir", ".ll", ".s", ".ptx", ".rocmasm")
    }
    triton = triton_compiler.sources()
    made = []
    for number, kernel in enumerate(profile.kernels):
        own = folder / f"{number:02d}_{_UNSAFE.sub('_', kernel.name)[:_MAX_NAME]}"
        own.mkdir(exist_ok=True)
        made.append(own)
        entry = kernel.to_dict()
        if profile.capture.device.startswith("cuda"):
            entry["ncu"] = _ncu(kernel, call)
        (own / "kernel.json").write_text(f"{json.dumps(entry, indent=1)}\n", encoding="utf-8")
        for name, text in _code(kernel, texts):
            (own / name).write_text(text, encoding="utf-8")
            if (source := triton.get(text.encode())) is not None:
                (own / "source.py").write_text(source, encoding="utf-8")
        for path in dumped.glob("*.spv"):
            if path.stem.endswith(f"_{kernel.name}"):
                shutil.copyfile(path, own / "kernel.spv")
    return made


def _ncu(kernel: KernelProfile, call: Sequence[str]) -> str:
    """The command line of NVIDIA's profiler for one kernel."""
    launches = (f"--launch-skip={kernel.launch}", f"--launch-count={kernel.calls}")
    return shlex.join(["ncu", "--set", "full", f"--kernel-name={kernel.name}", *launches, *call])


def _code(kernel: KernelProfile, texts: dict[Path, str]) -> list[tuple[str, str]]:
    """File name and text of each form of a kernel's code.

    A file of the kernel's executable comes before others that have its name: several executables
    have an entry point of one name, and some files are of all executables together.
    """
    name = kernel.name
    word = re.compile(rf'@"?{re.escape(name)}"?(?![\w$.])')
    executable = re.compile(rf"(?:^|_){re.escape(kernel.executable)}(?:_(?!\d)|$)")
    found: dict[str, tuple[bool, str]] = {}
    for path, text in texts.items():
        if path.stem.endswith("_benchmark") or not _mentions(path, word, name, text):
            continue
        made = _form(path, name, text)
        if made is None:
            continue
        file, part = made
        own = bool(kernel.executable) and executable.search(path.stem) is not None
        if file not in found or own or not found[file][0]:
            found[file] = (own, part)
    return [(file, part) for file, (_, part) in found.items()]


def _mentions(path: Path, word: re.Pattern[str], name: str, text: str) -> bool:
    if path.suffix in (".ptx", ".s", ".rocmasm"):
        return re.search(rf"(?<![\w$.]){re.escape(name)}(?![\w$.])", text) is not None
    return word.search(text) is not None


def _form(path: Path, name: str, text: str) -> tuple[str, str] | None:
    """File name and text of one of IREE's files for a kernel; None for one that is left out."""
    if path.name.endswith(".spirv.mlir"):
        return "kernel.spirv.mlir", text
    if path.suffix == ".mlir":
        return ("configured" if path.name.startswith("configured_") else "source") + ".mlir", text
    if path.suffix == ".ll":
        return _part("kernel.ll", _function(name, text)) if ".optimized" in path.name else None
    if path.suffix == ".s":
        return _part("kernel.s", _assembly(name, text))
    return f"kernel{path.suffix}", text


def _part(file: str, text: str | None) -> tuple[str, str] | None:
    return None if text is None else (file, text)


def _between(pattern: str) -> Callable[[str, str], str | None]:
    def find(name: str, text: str) -> str | None:
        found = re.search(pattern.replace("NAME", re.escape(name)), text, re.DOTALL | re.MULTILINE)
        return None if found is None else f"{found[0].rstrip()}\n"

    return find


# IREE links the kernels of a CPU together: a kernel's part of the file is its function.
_function = _between(r'^define [^\n]*@"?NAME"?\(.*?^\}$')
_assembly = _between(r'^"?NAME"?:.*?^\s*\.size\s+"?NAME"?,[^\n]*$')
