import collections
import gc
import itertools
import os

import iree.runtime as rt
import pytest

from helpers import kernel_builds, software_vulkan
from mlirfuse.support.environment_numbers import THREADS_VARIABLE

# A user's measurements on this machine must not change the results of tests.
os.environ["MLIRFUSE_RATES"] = "off"

# Tests run side by side: threads of PyTorch that spin while they wait would take cores from others.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Kernels are run by Triton's interpreter; Triton asks when it is imported, as PyTorch does, too.
os.environ["TRITON_INTERPRET"] = "1"


LONGEST = (
    "test_lit",
    "test_torch_operators",
    "test_demo",
    "test_torch_backend",
    "test_fusion_plan",
    "test_models",
    "test_resizing_numerics",
    "test_torch_types",
    "test_jax_repairs",
    "test_torch_images",
    "test_convolution_forms",
    "test_attention_dynamic_sizes",
    "test_faults",
    "test_torch",
    "test_malformed",
    "test_golden",
    "test_graphs",
    "test_sibling_contraction_numerics",
    "test_norm_targets",
    "test_docs",
)
"""Test modules that take longest. They are started first, so that none is left at the end."""


def pytest_collection_modifyitems(items):
    """Puts long modules first; `--dist loadfile --no-loadscope-reorder` gives them out in order."""
    ranks = {name: rank for rank, name in enumerate(LONGEST)}
    items.sort(key=lambda item: ranks.get(item.path.stem, len(ranks)))


def pytest_collection_finish():
    """Leaves what is imported by now to no garbage collection: PyTorch alone has a million objects.

    Each collection would take tenths of a second, and tests that compile cause many.
    """
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter):
    """With `--durations`, the seconds of each folder and of the longest modules."""
    count = terminalreporter.config.option.durations
    if count is None:
        return
    folders, modules = collections.Counter(), collections.Counter()
    for report in itertools.chain(*terminalreporter.stats.values()):
        if isinstance(report, pytest.TestReport):
            module = report.nodeid.partition("::")[0]
            modules[module] += report.duration
            folders[os.path.dirname(module)] += report.duration
    terminalreporter.section("seconds of folders and modules")
    for name, seconds in [*folders.most_common(), *modules.most_common(count or None)]:
        terminalreporter.write_line(f"{seconds:8.1f} s  {name}")


@pytest.fixture(scope="module", autouse=True)
def own_threads():
    """Restores the number of threads, which benchmarks set for the whole process."""
    before = os.environ.get(THREADS_VARIABLE)
    yield
    if before is None:
        os.environ.pop(THREADS_VARIABLE, None)
    else:
        os.environ[THREADS_VARIABLE] = before


@pytest.fixture(scope="session")
def kernels(tmp_path_factory):
    """Folder of the kernels that this run of the tests has built, on all its workers."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    folder /= "kernels"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session", autouse=True)
def _shared_kernels(kernels):
    """Each kernel is built once a run, in a fork of a process that has imported Triton."""
    kernel_builds.share(kernels)


@pytest.fixture(scope="session")
def vulkan():
    """Spelling of the Vulkan target that this machine can run; skips where it has none."""
    try:
        devices = rt.get_driver("vulkan").query_available_devices()
    except Exception as error:
        reason = str(error).splitlines()[0]
        pytest.skip(f"no Vulkan loader (Debian package libvulkan1): {reason}")
    if not any("llvmpipe" in device["name"] for device in devices):
        pytest.skip("no software Vulkan device (Debian package mesa-vulkan-drivers)")
    return "vulkan:llvmpipe"


@pytest.fixture(autouse=True)
def _vulkan_ends():
    """No Vulkan device is open after a test."""
    yield
    software_vulkan.free()
