"""Compiles Triton kernels: `python -P -m mlirfuse.kernels.triton_worker [SOCKET]`.

Without a socket it compiles one kernel: standard input is JSON with the program's text; the object
code goes to the file named `output`, its shared memory and warps to standard output. With one it
serves requests there, each in a fork, until standard input is closed. No GPU and no driver is
needed.
"""

import importlib.util
import json
import os
import re
import select
import signal
import socket
import sys
import tempfile
import traceback
import weakref
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NoReturn

from mlirfuse.kernels.build_server import STDERR, STDOUT, TIMED_OUT


def load(source: str, name: str) -> ModuleType:
    """Makes a module of a kernel's text, in a private folder that lives as long as the module.

    Triton reads the text again from the file.
    """
    folder = tempfile.TemporaryDirectory(prefix="mlirfuse-")
    path = Path(folder.name, f"{name}.py")
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    weakref.finalize(module, folder.cleanup)
    return module


PTX_VERSION = 80
"""The PTX that is written, unless a kernel needs a newer one: later ones are refused by drivers
older than CUDA 12.0."""


PACKED_ADD = re.compile(r"\badd\.[su]16x2\s+(%\w+), (%\w+), (%\w+);")
"""An addition of two integers of 16 bits in one register each."""


def without_packed_adds(ptx: str) -> str:
    """Replaces additions of two integers of 16 bits by two additions.

    Of one whose second operand is a constant and of whose result one half is read, ptxas 12.8 and
    12.9 and that of driver 580 add zero for sm_90. LLVM packs scalars of 8 and 16 bits into such
    registers, and narrows remainders of an id to them.
    """
    return PACKED_ADD.sub(
        r"{ .reg .b16 %a0, %a1, %b0, %b1; mov.b32 {%a0, %a1}, \2; mov.b32 {%b0, %b1}, \3;"
        r" add.s16 %a0, %a0, %b0; add.s16 %a1, %a1, %b1; mov.b32 \1, {%a0, %a1}; }",
        ptx,
    )


def ptx_for_iree(ptx: str, entry: str, pointers: int, cluster: int) -> str:
    """Leaves only the kernel's own parameters: IREE passes bindings and constants, nothing else.

    The text also gets the size of a cluster, since IREE does not launch with one, and no packed
    additions.

    Raises:
      ValueError: the kernel reads a parameter that Triton added.
    """
    first = f"{entry}_param_"
    kept, added = [], []
    for line in ptx.splitlines():
        number = re.search(rf"\.param .*{re.escape(first)}(\d+),?$", line)
        if number is None or int(number[1]) < pointers:
            kept.append(line)
        else:
            added.append(int(number[1]))
    text = "\n".join(kept) + "\n"
    for position in added:
        if re.search(rf"{re.escape(first)}{position}\b", text):
            raise ValueError(f"the kernel reads scratch memory, parameter {position}")
    if cluster > 1:
        text = re.sub(r"^\.reqntid .*", rf"\g<0>\n.reqnctapercluster {cluster}", text, flags=re.M)
    text = re.sub(rf"({re.escape(first)}{pointers - 1}),(?=\s*\))", r"\1", text)
    return without_packed_adds(text)


def amdgcn_for_iree(text: str, count: int) -> str:
    """The same of AMD's assembly: only the kernel's own arguments are described.

    HIP passes the arguments that are described. Their total size is unchanged: the hardware loads
    that many bytes.

    Raises:
      ValueError: the text has another form.
    """
    listed = re.search(r"( +)\.args:\n((?:\1 .*\n)+)", text)
    starts = [] if listed is None else list(re.finditer(r"^ +- ", listed[2], re.MULTILINE))
    if listed is None or len(starts) < count:
        raise ValueError(f"{len(starts)} arguments in the kernel's description, not {count}")
    end = starts[count].start() if len(starts) > count else len(listed[2])
    return text[: listed.start(2) + end] + text[listed.end(2) :]


def _source_class(entry: Any) -> Any:
    """Triton's class of the source of a kernel, in Triton or in Gluon."""
    if entry.is_gluon():
        from triton.experimental.gluon._runtime import GluonASTSource

        return GluonASTSource
    from triton.compiler import ASTSource

    return ASTSource


def compile_kernel(request: dict[str, Any]) -> None:
    """Compiles a kernel, writes its object code, and prints its shared memory and warps."""
    os.environ["TRITON_DISABLE_LINE_INFO"] = "1"
    import triton
    from triton.backends.compiler import GPUTarget

    module = load(request["source"], request["entry"])
    arguments = request["arguments"]
    attributes = {
        (number,): [["tt.divisibility", alignment]]
        for number, alignment in enumerate(request["alignments"])
    }
    hip = request["backend"] == "hip"
    if hip:
        from triton.language.extra.hip import libdevice

        # Triton has one for NVIDIA only; kernels call it.
        libdevice.fast_log2f = libdevice.log2
    entry = getattr(module, request["entry"])
    source = _source_class(entry)(entry, dict(arguments), {}, attributes)
    options = {"num_warps": request["warps"], "num_stages": request["stages"]}
    if request["registers"]:
        options["maxnreg"] = request["registers"]
    done = triton.compile(
        source,
        target=GPUTarget(request["backend"], request["arch"], request["subgroup"]),
        options={
            **options,
            **({} if hip else {"ptx_version": max(PTX_VERSION, request["ptx_version"])}),
            "enable_fp_fusion": request["contracts"],
        },
    )
    output = Path(request["output"])
    if hip:
        from triton.backends.amd.compiler import HIPBackend

        if done.metadata.global_scratch_size or done.metadata.profile_scratch_size:
            raise ValueError("the kernel reads scratch memory")
        text = amdgcn_for_iree(done.asm["amdgcn"], len(arguments))
        chip = SimpleNamespace(arch=request["arch"])
        output.write_bytes(HIPBackend.make_hsaco(text, {}, chip))
    else:
        ptx = ptx_for_iree(done.asm["ptx"], request["entry"], len(arguments), request["cluster"])
        output.write_text(ptx, encoding="utf-8")
    json.dump({"shared": done.metadata.shared, "warps": done.metadata.num_warps}, sys.stdout)


def serve(path: str) -> None:
    """Answers each connection by two forks: one to compile, one to wait for it."""
    importlib.import_module("triton")
    importlib.import_module("triton.compiler")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen(64)
        print("listening", flush=True)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # Nobody waits for the answering forks.
        while select.select([listening, sys.stdin], [], [])[0] == [listening]:
            line, _ = listening.accept()
            if os.fork() == 0:
                listening.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                _answer(line)
                os._exit(0)
            line.close()


def _answer(line: socket.socket) -> None:
    """Compiles what a connection asks for, in a fork, and sends its exit code."""
    with line.makefile() as asked_text:
        asked = json.loads(asked_text.read())
    process = os.fork()
    if process == 0:
        _compile(asked)
    signal.signal(signal.SIGALRM, lambda *_: os.kill(process, signal.SIGKILL))
    signal.setitimer(signal.ITIMER_REAL, asked["seconds"])
    _, status = os.waitpid(process, 0)
    late = signal.getitimer(signal.ITIMER_REAL)[0] == 0
    code = TIMED_OUT if late else os.waitstatus_to_exitcode(status)
    line.sendall(str(code).encode())


def _compile(asked: dict[str, Any]) -> NoReturn:
    """Compiles a request in this process, with its streams in files of its folder, and ends."""
    code = 1
    try:
        os.chdir(asked["folder"])
        for number, name in ((1, STDOUT), (2, STDERR)):
            stream = os.open(name, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
            os.dup2(stream, number)
        compile_kernel(json.loads(asked["request"]))
        sys.stdout.flush()
        code = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    os._exit(code)


def main() -> None:
    """Serves a socket, or compiles the request on standard input."""
    if len(sys.argv) > 1:
        serve(sys.argv[1])
    else:
        compile_kernel(json.load(sys.stdin))


if __name__ == "__main__":
    main()
