"""Runs a command on damaged files, each in a process of its own: `mutations.py COUNT FILE ...`.

Prints a line for each file that a signal or an internal error answered.
"""

import contextlib
import os
import random
import sys
from pathlib import Path

# Imported before there are children, not in each of them.
from mlirfuse.pipelines import engine  # noqa: F401
from mlirfuse.tools.opt import main


def mutated(data, seed):
    """The bytes with some bits turned, and pieces gone, doubled or cut off."""
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


def run(path):
    """The command in a child; its wait status."""
    child = os.fork()
    if child == 0:
        with Path("said").open("w") as said:
            os.dup2(said.fileno(), 2)
            with contextlib.redirect_stderr(said):
                code = main([str(path), "-o", "out.mlir"])
                said.flush()
        os._exit(code)
    return os.waitpid(child, 0)[1]


def sweep(count, names):
    for name in names:
        data = Path(name).read_bytes()
        for seed in range(count):
            path = Path(f"damaged{Path(name).suffix}")
            path.write_bytes(mutated(data, seed))
            status = run(path)
            said = Path("said").read_text(errors="replace")
            bad = "internal error" in said or "Traceback" in said
            if os.WIFSIGNALED(status) or bad or os.WEXITSTATUS(status) not in (0, 1, 2):
                print(f"{name} {seed}: {status}: {said[:300]}")


if __name__ == "__main__":
    sweep(int(sys.argv[1]), sys.argv[2:])
