"""Copies of ONNX Runtime and OpenVINO that take a CPU for one of AVX2 alone.

Neither has a switch for its instructions. Both ask the CPU which registers the operating system
saves (XGETBV), and use none of AVX-512 where it saves those of AVX alone; in the copies the answer
is that, and CPUID's leaf of AVX-VNNI is empty. So a machine with AVX-512 compares programs for
`cpu:x86-64-v3` with the code that these systems have for such CPUs. The copies are in the user's
cache; the installed packages stay as they are.
"""

from __future__ import annotations

import re
import shutil
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import filelock
import platformdirs

from mlirfuse.core import MlirfuseError

PACKAGES = {
    "onnxruntime": "capi/onnxruntime_pybind11_state*.so",
    "openvino": "libs/libopenvino*.so*",
}
"""Package -> its libraries that look at the CPU."""

_XGETBV, _AVX_ALONE = b"\x0f\x01\xd0", b"\xb0\x07\x90"
"""The instruction, and `mov al, 7; nop`: the states of x87, SSE and AVX."""

_CLEARS_ECX = (b"\x31\xc9", b"\xb9\x00\x00\x00\x00")
"""What stands before an XGETBV, whose register ECX is: elsewhere its bytes are no instruction."""

_LEAF = re.compile(rb"\xb8\x07\x00\x00\x00\xb9\x01\x00\x00\x00\x0f\xa2", re.DOTALL)
"""`mov eax, 7; mov ecx, 1; cpuid`."""

_NOTHING = b"\x31\xc0"
"""`xor eax, eax`, in place of the CPUID."""

_REACH = 24
"""Bytes before the instruction that are looked at."""


def use(name: str) -> None:
    """Lets this process import the copy of a package, which it has not imported yet.

    Args:
      name: one of `PACKAGES`.

    Raises:
      MlirfuseError: as `folder`; or the package is imported.
    """
    if name in sys.modules:
        raise MlirfuseError(f"{name} is imported already")
    sys.path.insert(0, str(folder(name)))


def folder(name: str) -> Path:
    """The folder with the copy of a package, for `sys.path`; made where it is not there.

    Args:
      name: one of `PACKAGES`.

    Raises:
      MlirfuseError: the package is not installed, or does not look at the CPU in the known way.
    """
    try:
        key = f"{name}{version(name)}"
    except ImportError as error:
        raise MlirfuseError(f"not installed: {error}") from error
    place = platformdirs.user_cache_path("mlirfuse") / "avx2_packages" / key
    place.parent.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(f"{place}.lock"):
        if not place.exists():
            made = place.with_name(f"{key}.part")
            shutil.rmtree(made, ignore_errors=True)
            _copy(name, made / name)
            made.rename(place)
    return place


def _copy(name: str, place: Path) -> None:
    spec = find_spec(name)
    assert spec is not None
    assert spec.submodule_search_locations is not None
    shutil.copytree(spec.submodule_search_locations[0], place)
    count = 0
    for path in sorted(place.glob(PACKAGES[name])):
        narrowed, replaced = narrow(path.read_bytes())
        if replaced:
            path.write_bytes(narrowed)
        count += replaced
    if not count:
        raise MlirfuseError(f"{name} {version(name)} does not look at the CPU in the known way")


def narrow(code: bytes) -> tuple[bytes, int]:
    """A library whose code sees no AVX-512 and no AVX-VNNI, and the number of places replaced."""
    changed, count = bytearray(code), 0
    for found in re.finditer(re.escape(_XGETBV), code):
        start = found.start()
        if any(clear in code[max(0, start - _REACH) : start] for clear in _CLEARS_ECX):
            changed[start : start + len(_AVX_ALONE)] = _AVX_ALONE
            count += 1
    for found in _LEAF.finditer(code):
        changed[found.end() - len(_NOTHING) : found.end()] = _NOTHING
        count += 1
    return bytes(changed), count
