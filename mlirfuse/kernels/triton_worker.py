"""Compiles one Triton kernel in a process: `python -P -m mlirfuse.kernels.triton_worker`.

Standard input is JSON with the program's text; the object code goes to the file named `output`,
its shared memory and warps to standard output. No GPU and no driver is needed.
"""

import importlib.util
import json
import os
import re
import sys
import tempfile
import weakref
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any


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
"""The newest PTX that is written: later ones are refused by drivers older than CUDA 12.0."""


def ptx_for_iree(ptx: str, entry: str, pointers: int, cluster: int) -> str:
    """Leaves only the kernel's own parameters: IREE passes bindings and constants, nothing else.

    The text also gets the size of a cluster: IREE does not launch with one.

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
    return re.sub(rf"({re.escape(first)}{pointers - 1}),(?=\s*\))", r"\1", text)


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


def main() -> None:
    """Reads the request, compiles, writes the object."""
    request = json.load(sys.stdin)
    os.environ["TRITON_DISABLE_LINE_INFO"] = "1"
    os.environ["TRITON_DEFAULT_FP_FUSION"] = "1"
    import triton
    from triton.backends.compiler import GPUTarget

    module = load(request["source"], request["entry"])
    arguments = request["arguments"]
    attributes = {
        (number,): [["tt.divisibility", alignment]]
        for number, alignment in enumerate(request["alignments"])
    }
    hip = request["backend"] == "hip"
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
            **({} if hip else {"ptx_version": PTX_VERSION}),
            "enable_fp_fusion": True,
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


if __name__ == "__main__":
    main()
