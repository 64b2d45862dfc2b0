"""The machine code of a program's dispatches, as the compiler writes it."""

import dataclasses
import re
from collections import Counter

import mlirfuse
from mlirfuse import targets

_INSTRUCTION = re.compile(r"^\s+(?:\{vex\}\s+)?([a-z][a-z0-9.]*)(?:\s+(.*))?$")


def compiled(model, inputs, spec, folder, **switches):
    """The compiled model, whose machine code is in the folder."""
    flag = f"--iree-hal-dump-executable-intermediates-to={folder}"
    target = targets.parse(spec)
    target = dataclasses.replace(target, codegen_flags=(*target.codegen_flags, flag))
    given = () if inputs is None else (inputs,)
    return mlirfuse.compile(model, *given, target=target, cache=False, **switches)


def instructions(folder):
    """How often each instruction is in the dispatches: `fmla v`, by its first register's kind."""
    found = Counter()
    for path in folder.glob("*.s"):
        for line in path.read_text().splitlines():
            match = _INSTRUCTION.match(line)
            if match:
                register = re.match(r"%?([a-z])", match[2] or "")
                found[f"{match[1]} {register[1] if register else ''}".strip()] += 1
    return found
