"""The numbers of a CPU: of named ones, of machines that Linux describes, and of this one."""

import pytest

from mlirfuse import targets
from mlirfuse.core import UsageError
from mlirfuse.targets import cpu_host, cpu_models, cpu_query, cpu_rates
from mlirfuse.targets.cpu import NAMED_CORES


@pytest.mark.parametrize(
    ("name", "vector", "registers", "ports", "has", "lacks"),
    [
        ("x86-64-v2", 16, 16, 2, "sse4.1", "avx"),
        ("x86-64-v3", 32, 16, 2, "fma", "avx512f"),
        ("znver1", 32, 16, 1, "avx2", "avxvnni"),
        ("alderlake", 32, 16, 2, "avxvnni", "avx512f"),
        ("cascadelake", 64, 32, 2, "avx512vnni", "avx512bf16"),
        ("tigerlake", 64, 32, 1, "avx512vnni", "avx512bf16"),
        ("znver4", 64, 32, 1, "avx512bf16", "amx-int8"),
        ("sapphirerapids", 64, 32, 2, "amx-int8", "sve"),
        ("aarch64", 16, 32, 2, "neon", "dotprod"),
        ("neoverse-n1", 16, 32, 2, "dotprod", "i8mm"),
        ("aarch64:neoverse-v1", 16, 32, 4, "sve", "sve2"),
        ("apple-m1", 16, 32, 4, "dotprod", "bf16"),
        ("apple-m2", 16, 32, 4, "bf16", "sve"),
    ],
)
def test_named_cpus(name, vector, registers, ports, has, lacks):
    device = targets.parse(f"cpu:{name}").cpu
    numbers = (device.vector_bytes, device.num_registers, device.fma_ports)
    assert numbers == (vector, registers, ports)
    assert device.has(has)
    assert not device.has(lacks)
    assert device.has_fma == device.has("fma", "neon")


def test_a_name_chooses_its_architecture():
    arm, same = targets.parse("cpu:neoverse-n1"), targets.parse("cpu:aarch64:neoverse-n1")
    assert arm.cpu == same.cpu
    assert arm.cpu.architecture == "aarch64"
    assert arm.flags == same.flags
    assert ("--iree-llvmcpu-target-triple=aarch64-linux-gnu" in arm.flags) == (
        cpu_host.architecture() != "aarch64"
    )


@pytest.mark.parametrize("name", ["foo", "aarch64:znver4", "x86_64:neoverse-n1", "neoverse-n"])
def test_unknown_names_are_refused_at_once(name):
    with pytest.raises(UsageError, match=f"unknown target 'cpu:{name}': LLVM knows no CPU"):
        targets.parse(f"cpu:{name}")


def test_every_row_has_names_of_llvm():
    known = set()
    for architecture in ("x86_64", "aarch64"):
        with pytest.raises(cpu_query.UnknownCpuError) as caught:
            cpu_query.ask("foo", architecture)
        known |= set(caught.value.accepted)
    named = {name for model in cpu_models.MODELS for name in model.names.split()}
    assert named <= known


CPUINFO = {
    "zen2": (
        "x86_64",
        "vendor_id : AuthenticAMD\ncpu family : 23\nmodel : 49\nflags : sse4_1 avx avx2 fma f16c",
        (2, {"avx2", "fma"}),
    ),
    "zen1": (
        "x86_64",
        "vendor_id : AuthenticAMD\ncpu family : 23\nmodel : 1\nflags : avx avx2 fma",
        (1, {"avx2", "fma"}),
    ),
    "zen4": (
        "x86_64",
        "vendor_id : AuthenticAMD\ncpu family : 25\nmodel : 17\nflags : avx512f avx512_bf16",
        (1, {"avx512f", "avx512bf16"}),
    ),
    "a_server_that_looks_like_rocket_lake": (
        "x86_64",
        "vendor_id : GenuineIntel\ncpu family : 6\nmodel : 167\nflags : avx512f amx_int8",
        (2, {"avx512f", "amx-int8"}),
    ),
    "rocket_lake": (
        "x86_64",
        "vendor_id : GenuineIntel\ncpu family : 6\nmodel : 167\nflags : avx512f",
        (1, {"avx512f"}),
    ),
    "graviton3": (
        "aarch64",
        "Features : asimd asimddp i8mm bf16 sve\nCPU implementer : 0x41\nCPU part : 0xd40",
        (4, {"neon", "dotprod", "i8mm", "bf16", "sve"}),
    ),
    "unknown": ("aarch64", "Features : asimd\nCPU implementer : 0x99\nCPU part : 0x1", (2, set())),
}


@pytest.mark.parametrize("name", list(CPUINFO))
def test_machines_that_linux_describes(name):
    architecture, text, (ports, expected) = CPUINFO[name]
    model, features = cpu_host.identified(cpu_host.fields(text), architecture)
    assert model.fma_ports == ports
    assert expected <= set(features)


def test_caches_are_divided_by_the_cores_that_share_them(tmp_path):
    (tmp_path / "topology").mkdir()
    (tmp_path / "topology/thread_siblings_list").write_text("0,4")
    for index, (level, kind, size, shared) in enumerate(
        [
            ("1", "Data", "48K", "0,4"),
            ("1", "Instruction", "32K", "0,4"),
            ("2", "Unified", "4096K", "0-7"),
            ("3", "Unified", "32768K", "0-7"),
        ]
    ):
        folder = tmp_path / f"cache/index{index}"
        folder.mkdir(parents=True)
        for file, text in (
            ("level", level),
            ("type", kind),
            ("size", size),
            ("shared_cpu_list", shared),
        ):
            (folder / file).write_text(text)
    assert cpu_host.cache_kib(tmp_path) == {1: 48, 2: 1024, 3: 32768}


def test_the_host_is_like_llvms_description_of_it():
    _, features = cpu_query.ask("host", "")
    assert set(targets.parse("cpu").cpu.features) == set(features)
    assert targets.parse("cpu").cpu.cores >= 1


@pytest.mark.parametrize("name", ["cpu", "cpu:x86-64-v3"])
def test_programs_are_compiled_for_the_threads_of_the_environment(name, monkeypatch):
    monkeypatch.setenv("MLIRFUSE_THREADS", "3")
    assert targets.parse(name).cpu.cores == 3
    monkeypatch.delenv("MLIRFUSE_THREADS")
    assert targets.parse("cpu:x86-64-v3").cpu.cores == NAMED_CORES


def test_rates_grow_with_the_device():
    small, large = (targets.parse(f"cpu:{name}") for name in ("x86-64-v3", "x86-64-v4"))
    assert large.matmul_rate["f32"] == 2 * small.matmul_rate["f32"]
    assert large.parallelism == 2 * small.parallelism
    assert small.matmul_rate["bf16"] == small.matmul_rate["f32"]
    wide = targets.parse("cpu:cooperlake").matmul_rate
    assert wide["bf16"] == 2 * wide["f32"]
    assert small.bandwidth <= cpu_rates.MAX_BANDWIDTH
