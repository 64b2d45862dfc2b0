"""Damaged models and hostile switches: an error in a line, never a crash, a hang or a traceback.

    sweep(count=100, seed=0)       # counts and failures of each kind

Each input is passed to a command in a separate process.
"""

from __future__ import annotations

import contextlib
import datetime
import io
import os
import random
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from iree.compiler import ir

from benchmarks.fuzz.graphs import graph
from mlirfuse.options import switch_names
from mlirfuse.patterns import PASSES
from mlirfuse.pipelines import engine  # noqa: F401  Before there are processes, not in each.
from mlirfuse.tools import compile as compiling
from mlirfuse.tools import opt, run

HANG_SECONDS = 120
"""Time after which a command counts as hung."""

SLOW_RATIO = 4
"""Inputs of a fast kind for each input of a slow kind, such as a whole model."""

_PLAIN, _STDERR = Path("plain.mlir"), Path("stderr")

_LETTERS = "abl_-@=,{}()%:.0123456789 \n\t\"'\\é/*"

_NETWORK = """
<ir_version: 8, opset_import: ["": 17]>
net (float[4, 8] x) => (float[4, 8] y) { z = Exp(x) y = Softmax(z) }
"""

_CONFIGURATION = b"""[tool.mlirfuse]
disable_pass = ["softmax_fusion", "rms_norm_fusion@match=3"]
numerics = "exact"
fusion_limit = 4
single_op_groups = true
"""

Command = Callable[[], int]
"""A command that reads the arguments of the process."""

Case = Callable[[int], list[str]]
"""Writes the files of the case of a seed, and returns the arguments."""


def sweep(count: int, seed: int) -> dict[str, Any]:
    """Tries inputs of each kind.

    Args:
      count: number of inputs of a fast kind.
      seed: seed of the first input.

    Returns:
      The date, and for each kind the counts of inputs tried and refused, and the failures.
    """
    before = Path.cwd()
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="mlirfuse-") as folder:
        os.chdir(folder)
        try:
            for name, (command, case, slow) in _kinds().items():
                tried = range(seed, seed + max(1, count // (SLOW_RATIO if slow else 1)))
                codes = [_exit_code(command, case, case_seed) for case_seed in tried]
                failed = [
                    f"{n}: {c}" for n, c in zip(tried, codes, strict=True) if c not in (0, 1, 2)
                ]
                refused = sum(code in (1, 2) for code in codes)
                found[name] = {"tried": len(codes), "refused": refused, "failed": failed}
                for line in failed:
                    print(f"{name} {line}", file=sys.stderr, flush=True)
        finally:
            os.chdir(before)
    return {"date": datetime.date.today().isoformat(), "first_seed": seed, "inputs": found}


def mutated(data: bytes, seed: int) -> bytes:
    """The bytes with some bits flipped, and parts removed, duplicated or cut off."""
    chance = random.Random(seed)
    made = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        kind, at = chance.randrange(4), chance.randrange(len(made))
        if kind == 0:
            made[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del made[at : at + chance.randint(1, 30)]
        elif kind == 2:
            made[at:at] = made[at : at + chance.randint(1, 30)]
        else:
            del made[chance.randrange(len(made)) :]
        made = made or bytearray(b"x")
    return bytes(made)


def _kinds() -> dict[str, tuple[Command, Case, bool]]:
    """Kind -> command, case, and whether it is slow; called in an empty directory."""
    text = graph(7, 10)
    _PLAIN.write_text(text, encoding="utf-8")
    program = Path("program.vmfb")
    compiling.main([str(_PLAIN), "-o", str(program), "--function=main"])
    stablehlo = graph(7, 10, "main", "stablehlo").encode()

    def file(name: str, data: bytes, *more: str) -> Case:
        def case(seed: int) -> list[str]:
            Path(name).write_bytes(mutated(data, seed))
            return [name, *more]

        return case

    output = ("-o", "out.vmfb", "--no-cache")
    return {
        "MLIR text": (opt.main, file("text.mlir", text.encode(), "-o", "out.mlir"), False),
        "MLIR bytecode": (opt.main, file("code.mlirbc", _bytecode(text), "-o", "out.mlir"), False),
        "StableHLO text": (compiling.main, file("hlo.mlir", stablehlo, *output), True),
        ".onnx": (compiling.main, file("net.onnx", _onnx(), *output), True),
        ".pt2": (compiling.main, file("net.pt2", _archive(), *output), True),
        ".vmfb": (run.main, file("damaged.vmfb", program.read_bytes()), True),
        "mlirfuse.toml": (opt.main, _configured, False),
        "switches": (opt.main, _switched, False),
        "pipelines": (opt.main, _piped, False),
    }


def _bytecode(text: str) -> bytes:
    made = io.BytesIO()
    with ir.Context():
        ir.Module.parse(text).operation.write_bytecode(made)
    return made.getvalue()


def _onnx() -> bytes:
    import onnx.parser

    data: bytes = onnx.parser.parse_model(_NETWORK).SerializeToString()
    return data


def _archive() -> bytes:
    import torch

    made = io.BytesIO()
    torch.export.save(torch.export.export(torch.nn.Softmax(-1), (torch.ones(4, 8),)), made)
    return made.getvalue()


def _configured(seed: int) -> list[str]:
    Path("mlirfuse.toml").write_bytes(mutated(_CONFIGURATION, seed))
    return [str(_PLAIN), "-o", "out.mlir"]


def _switched(seed: int) -> list[str]:
    chance = random.Random(seed)
    Path("mlirfuse.toml").unlink(missing_ok=True)
    # Loaded passes run code of their authors.
    names = [n for n in switch_names() if n != "load_pass"]
    shown = [
        f"--{name.replace('_', chance.choice('-_'))}={_word(chance)}"
        for name in chance.sample(names, chance.randint(1, 3))
    ]
    return [str(_PLAIN), "-o", "out.mlir", *shown]


def _piped(seed: int) -> list[str]:
    return [str(_PLAIN), "-o", "out.mlir", f"--pipeline={_word(random.Random(seed))}"]


def _word(chance: random.Random) -> str:
    parts = [*PASSES, "cse", "canonicalize", "on", "main"]
    return "".join(
        chance.choice(parts) if chance.random() < 0.2 else chance.choice(_LETTERS)
        for _ in range(chance.randint(0, 20))
    )


def _exit_code(command: Command, case: Case, seed: int) -> int | str:
    """The exit code of a command; a message if the command fails."""
    child = os.fork()
    if child == 0:
        _call(command, case, seed)
    status = os.waitpid(child, 0)[1]
    output = _STDERR.read_text(encoding="utf-8", errors="replace")
    if os.WIFSIGNALED(status):
        killed = os.WTERMSIG(status)
        return (
            "it hangs"
            if killed == signal.SIGALRM
            else f"it dies of signal {killed}: {output[-300:]}"
        )
    code = os.WEXITSTATUS(status)
    if "Traceback" in output or "internal error" in output or code not in (0, 1, 2):
        return f"exit code {code}: {output[-300:]}"
    # A switch that nothing matches is a warning.
    lines = [line for line in output.splitlines() if ": warning: " not in line]
    # MLIR may report several diagnostics, one line each.
    valid = bool(lines) == bool(code) and all("error: " in line for line in lines)
    return code if valid else f"exit code {code}, {len(lines)} lines: {output[:300]}"


def _call(command: Command, case: Case, seed: int) -> None:
    code: object = 70
    try:
        signal.alarm(HANG_SECONDS)
        with _STDERR.open("wb") as output, Path(os.devnull).open("wb") as nothing:
            os.dup2(output.fileno(), 2)
            os.dup2(nothing.fileno(), 1)
        with contextlib.redirect_stderr(os.fdopen(2, "w", closefd=False)) as shown:
            sys.argv = ["command", *case(seed)]
            code = command()
            shown.flush()
    except SystemExit as stop:
        code = stop.code
    finally:
        os._exit(code if isinstance(code, int) else 71)
