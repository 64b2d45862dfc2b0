"""Which programs are called as CUDA graphs where the caller asks for neither."""

from __future__ import annotations

import logging

from mlirfuse.core import UsageError
from mlirfuse.runtime.cuda_driver import has_bindings
from mlirfuse.runtime.manifest import Manifest

FEATURE = "cuda_graph"
"""Name of the feature that turns automatic CUDA graphs off."""

_log = logging.getLogger("mlirfuse.runtime")


def check(manifest: Manifest, cuda_graph: bool | None) -> None:
    """Makes sure that graphs are asked for on CUDA alone.

    Raises:
      UsageError: `cuda_graph` is True for another device.
    """
    if cuda_graph and not _on_cuda(manifest):
        raise UsageError(
            f"{manifest.source}: cuda_graph=True needs a program for CUDA, not for device"
            f" '{manifest.device}'"
        )


def replays(manifest: Manifest, cuda_graph: bool | None) -> bool:
    """Whether calls of a program are to be CUDA graphs, as far as its manifest tells.

    Each signature costs two calls that are recorded. So by itself only a program of static shapes
    has graphs, and one that is known to keep nothing from call to call: they would change it.

    Args:
      manifest: the program's.
      cuda_graph: the caller's wish; None for none.
    """
    if not _on_cuda(manifest) or cuda_graph is False:
        return False
    if cuda_graph:
        if manifest.has_state:
            _log.warning("%s: called without CUDA graphs: it has state", manifest.source)
        return not manifest.has_state
    static = not any(None in spec.shape for spec in manifest.inputs)
    off = manifest.report.disables(FEATURE)
    return static and manifest.has_state is False and not off and has_bindings()


def _on_cuda(manifest: Manifest) -> bool:
    return manifest.device.startswith("cuda")
