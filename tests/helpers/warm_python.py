"""Runs Python texts as `python -c` does, as forks of a process that has imported PyTorch already.

    with warm_python.started() as python:
        code, said = python.run("import torch; ...", cwd, environment)

As a process, `python -m helpers.warm_python` serves the requests. An import of PyTorch with what
`torch.compile` and `torch.export` need takes several seconds, and most examples of the documents
do little more.
"""

import contextlib
import dataclasses
import importlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from helpers import warm_commands

MODULES = (
    "numpy",
    "onnx",
    "torch",
    "torch._dynamo",
    "torch.export",
    "torch._functorch.aot_autograd",
)
"""What is imported before the first text, beside what `mlirfuse-opt` needs."""

SECONDS = 300
"""Time limit of a text."""

TESTS = Path(__file__).parents[1]


@dataclasses.dataclass
class Python:
    """The process that serves."""

    process: subprocess.Popen

    def run(self, text, cwd, environment):
        """The exit code of a text, and what it wrote to stderr."""
        with tempfile.NamedTemporaryFile("r", suffix=".txt") as said:
            request = {"text": text, "cwd": str(cwd), "env": environment, "said": said.name}
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
            return int(answer or -1), said.read()


@contextlib.contextmanager
def started():
    """The process, which ends with the block."""
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        [sys.executable, "-m", "helpers.warm_python"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    try:
        yield Python(process)
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


def _serve():
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # modules that are imported may print
    for name in MODULES:
        importlib.import_module(name)
    warm_commands.preload_tools()
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if not child:
            _run(request)
        answers.write(f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n")


def _run(request):
    """Becomes the text's process; does not return."""
    os.chdir(request["cwd"])
    said = os.open(request["said"], os.O_WRONLY | os.O_TRUNC)
    null = os.open(os.devnull, os.O_RDWR)
    for number, source in enumerate((null, null, said)):
        os.dup2(source, number)
    names = {"__name__": "__main__", "__builtins__": __builtins__}
    module = sys.modules["__main__"] = type(sys)("__main__")
    module.__dict__.update(names)
    code = compile(request["text"], "<string>", "exec")
    sys.path[0] = ""
    warm_commands.become(
        lambda: exec(code, module.__dict__), ["-c"], request["env"], seconds=SECONDS
    )


if __name__ == "__main__":
    _serve()
