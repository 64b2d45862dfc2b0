import json
import logging
import os
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import mlirfuse
from mlirfuse import targets
from mlirfuse.backend import cache
from mlirfuse.backend.compiler import Compiler
from mlirfuse.core import UsageError
from mlirfuse.options import FusionOptions
from mlirfuse.support import disk_cache
from mlirfuse.support.disk_cache import Cache, parse_size

PROGRAM = """
#all = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
func.func @main(%x: tensor<8x16xf32>) -> tensor<8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8xf32>) -> tensor<8xf32>
  %t = math.tanh %x : tensor<8x16xf32>
  %s = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]}
      ins(%t : tensor<8x16xf32>) outs(%f : tensor<8xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    linalg.yield %c : f32
  } -> tensor<8xf32>
  return %s : tensor<8xf32>
}
"""
X = np.linspace(-1, 1, 128, dtype=np.float32).reshape(8, 16)


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch):
    """A cache of this test's own."""
    monkeypatch.setenv(disk_cache.DIRECTORY_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.delenv(disk_cache.SIZE_VARIABLE, raising=False)
    return tmp_path / "cache"


@pytest.fixture
def model(tmp_path):
    """The program as a file."""
    path = tmp_path / "model.mlir"
    path.write_text(PROGRAM)
    return path


@pytest.fixture
def generated(monkeypatch):
    """Records each code generation; an empty list means that the cache answered."""
    calls = []
    generate = Compiler.generate

    def record(self, *arguments, **keywords):
        calls.append(keywords)
        return generate(self, *arguments, **keywords)

    monkeypatch.setattr(Compiler, "generate", record)
    return calls


def expected():
    return np.tanh(X).sum(1)


def programs(directory):
    return sorted(directory.glob("*.vmfb"))


def fill(store, tmp_path, key, size):
    program = tmp_path / "program"
    program.write_bytes(os.urandom(size))
    store.store(key, program, {"key": key})


def test_a_hit_is_the_same_program_with_the_same_report(model, generated, directory):
    first = mlirfuse.compile(model)
    assert len(generated) == 1
    assert len(programs(directory)) == 1
    second = mlirfuse.compile(model)
    assert len(generated) == 1
    assert json.dumps(second.report.to_dict()) == json.dumps(first.report.to_dict())
    assert second.report.decisions
    assert second.explain() == first.explain()
    np.testing.assert_allclose(second(X), expected(), rtol=1e-5)


def test_no_cache_reads_and_writes_nothing(model, generated, directory):
    mlirfuse.compile(model, cache=False)
    assert not directory.exists()
    mlirfuse.compile(model)
    mlirfuse.compile(model, cache=False)
    assert len(generated) == 3


def test_everything_that_makes_another_program_makes_another_key(tmp_path, monkeypatch):
    module = tmp_path / "module"
    module.write_text("one")

    def key(spec="cpu", **others):
        options = FusionOptions(**others.pop("switches", {})).to_dict()
        return cache.key(module, target=targets.parse(spec), options=options, **others)

    keys = [
        key(),
        key("cpu:generic"),
        key("cuda:sm_80"),
        key("cuda:sm_90"),
        key(stock=True),
        key(switches={"disable_pass": ("reduction_fusion",)}),
        key(switches={"disable_feature": ("data_tiling",)}),
        key(switches={"fusion_limit": 1}),
    ]
    assert key() == keys[0]
    module.write_text("two")
    keys.append(key())
    monkeypatch.setattr(cache, "sources", lambda: "other sources")
    keys.append(key())
    monkeypatch.setattr(cache, "version", lambda package: "other version")
    keys.append(key())
    monkeypatch.setattr(cache, "host_cpu", lambda: "other machine")
    keys.append(key())
    assert len(set(keys)) == len(keys)


def test_the_machine_counts_for_the_host_target_only(tmp_path, monkeypatch):
    module = tmp_path / "module"
    module.write_text("one")
    before = [cache.key(module, target=targets.parse(t), options={}) for t in ("cpu", "cuda")]
    monkeypatch.setattr(cache, "host_cpu", lambda: "other machine")
    after = [cache.key(module, target=targets.parse(t), options={}) for t in ("cpu", "cuda")]
    assert before[0] != after[0]
    assert before[1] == after[1]


def test_the_host_is_described_by_its_instruction_set():
    assert any(word in cache.host_cpu() for word in ("flags", "Features", "arm64", "AMD64"))


def truncate(path):
    path.write_bytes(path.read_bytes()[:-100])


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def remove(path):
    path.unlink()


@pytest.mark.parametrize("damage", [truncate, flip, remove])
@pytest.mark.parametrize("suffix", [".vmfb", ".json"])
def test_a_damaged_entry_is_none(tmp_path, directory, suffix, damage):
    store = Cache(directory, 1 << 20)
    fill(store, tmp_path, "a", 1000)
    assert store.find("a").manifest == {"key": "a"}
    damage(directory / f"a{suffix}")
    if damage is flip and suffix == ".json":
        record = directory / "a.json"
        record.write_text(record.read_text().replace('"sha256": "', '"sha256": "x'))
    assert store.find("a") is None


def test_a_damaged_entry_is_built_again(model, generated, directory):
    mlirfuse.compile(model)
    flip(*programs(directory))
    program = mlirfuse.compile(model)
    assert len(generated) == 2
    np.testing.assert_allclose(program(X), expected(), rtol=1e-5)
    mlirfuse.compile(model)
    assert len(generated) == 2


@pytest.mark.parametrize("text", ["[]", "null", '{"bytes": 1}', "{", ""])
def test_a_record_that_is_none(directory, text):
    directory.mkdir()
    (directory / "k.vmfb").write_text("x")
    (directory / "k.json").write_text(text)
    assert Cache.open().find("k") is None


def test_a_program_lives_on_when_its_entry_is_gone(model, directory):
    mlirfuse.compile(model)
    program = mlirfuse.compile(model)
    for path in directory.iterdir():
        path.unlink()
    np.testing.assert_allclose(program(X), expected(), rtol=1e-5)
    program.save(directory / "saved.vmfb")
    np.testing.assert_allclose(mlirfuse.load(directory / "saved.vmfb")(X), expected(), rtol=1e-5)


def test_the_number_of_stock_dispatches_is_added_to_an_entry(model, generated):
    assert mlirfuse.compile(model).report.dispatches["stock"] is None
    counted = mlirfuse.compile(model, count_stock=True)
    assert counted.report.dispatches["stock"] >= 1
    assert mlirfuse.compile(model).report.dispatches == counted.report.dispatches
    assert len(generated) == 1


# --- size ----------------------------------------------------------------------------------------


def test_the_least_recently_used_go_first(tmp_path, directory):
    store = Cache(directory, 3000)
    for number, key in enumerate("abc"):
        fill(store, tmp_path, key, 1000)
        os.utime(directory / f"{key}.json", (number, number))
        (directory / f"{key}.lock").touch()
    assert store.find("a") is not None  # used now
    fill(store, tmp_path, "d", 1000)
    assert [p.stem for p in programs(directory)] == ["a", "c", "d"]
    assert store.find("b") is None
    assert not (directory / "b.json").exists()
    assert not (directory / "b.lock").exists()
    fill(store, tmp_path, "e", 2500)
    assert [p.stem for p in programs(directory)] == ["e"]


def test_a_program_larger_than_the_cache_is_not_stored(tmp_path, directory):
    fill(Cache(directory, 999), tmp_path, "a", 1000)
    assert not directory.exists()


def test_a_cache_without_room_still_compiles(model, monkeypatch, directory):
    monkeypatch.setenv(disk_cache.SIZE_VARIABLE, "0")
    np.testing.assert_allclose(mlirfuse.compile(model)(X), expected(), rtol=1e-5)
    assert programs(directory) == []


def test_files_of_dead_processes_are_removed(tmp_path, directory):
    store = Cache(directory, 3000)
    old, new = directory / "new-old", directory / "new-new"
    for folder in (old, new):
        folder.mkdir(parents=True)
        (folder / "program").write_text("half")
    past = time.time() - disk_cache.STALE_SECONDS - 60
    os.utime(old, (past, past))
    fill(store, tmp_path, "a", 10)
    assert not old.exists()
    assert new.exists()


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("123", 123), ("2k", 2048), ("3 MiB", 3 << 20), ("10G", 10 << 30), ("1TB", 1 << 40)],
)
def test_sizes(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["ten", "-1", "1.5G", "G", "1X"])
def test_a_bad_size(model, monkeypatch, text):
    monkeypatch.setenv(disk_cache.SIZE_VARIABLE, text)
    with pytest.raises(UsageError, match=r"MLIRFUSE_CACHE_SIZE: '.*' is not a size; write bytes"):
        mlirfuse.compile(model)


def test_the_directory_without_the_variable(monkeypatch):
    monkeypatch.delenv(disk_cache.DIRECTORY_VARIABLE)
    assert Cache.open().directory.name == "mlirfuse"
    assert Cache.open().size == 10 << 30


# --- directories that cannot be written ----------------------------------------------------------


def test_a_directory_that_cannot_be_made_is_one_warning(model, tmp_path, monkeypatch, caplog):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(disk_cache.DIRECTORY_VARIABLE, str(tmp_path / "file" / "cache"))
    with caplog.at_level(logging.WARNING, "mlirfuse"):
        for _ in range(2):
            np.testing.assert_allclose(mlirfuse.compile(model)(X), expected(), rtol=1e-5)
    (record,) = caplog.records
    message = record.getMessage()
    assert message.startswith(f"compile cache {tmp_path / 'file' / 'cache'} is not used: ")
    assert disk_cache.DIRECTORY_VARIABLE in message
    assert "\n" not in message


def test_a_full_disk_is_a_warning(tmp_path, directory, monkeypatch, caplog):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(disk_cache.shutil, "copyfile", full)
    with caplog.at_level(logging.WARNING, "mlirfuse"):
        fill(Cache(directory, 1 << 20), tmp_path, "a", 10)
    assert "No space left on device" in caplog.text
    assert list(directory.iterdir()) == []


def test_an_entry_of_a_read_only_directory_is_used(model, generated, directory, monkeypatch):
    """Root may write everywhere, so the refusal of the system is imitated."""
    mlirfuse.compile(model)

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(disk_cache.os, "utime", refuse)
    mlirfuse.compile(model)
    assert len(generated) == 1


# --- several at once -----------------------------------------------------------------------------


def test_two_processes_that_compile_the_same_compile_it_once(model, tmp_path, directory):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import os, sys, time
            import mlirfuse
            from mlirfuse.backend.compiler import Compiler

            generate = Compiler.generate

            def record(self, *arguments, **keywords):
                with open({str(tmp_path / "log")!r}, "a") as log:
                    log.write("generate\\n")
                time.sleep(0.5)
                return generate(self, *arguments, **keywords)

            Compiler.generate = record
            open(sys.argv[1], "w").close()
            while not all(os.path.exists(f) for f in sys.argv[1:]):
                time.sleep(0.01)
            program = mlirfuse.compile({str(model)!r})
            print(program.report.counts())
            """
        )
    )
    flags = [str(tmp_path / name) for name in ("first", "second")]
    running = [
        subprocess.Popen(
            [sys.executable, str(script), *order], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for order in (flags, flags[::-1])
    ]
    outputs = [process.communicate(timeout=120) for process in running]
    assert [process.returncode for process in running] == [0, 0], outputs
    assert outputs[0] == outputs[1]
    assert (tmp_path / "log").read_text() == "generate\n"
    assert len(programs(directory)) == 1


def test_threads_that_compile_the_same_compile_it_once(model, generated):
    results = []
    work = [
        threading.Thread(target=lambda: results.append(mlirfuse.compile(model)(X)))
        for _ in range(3)
    ]
    for thread in work:
        thread.start()
    for thread in work:
        thread.join()
    assert len(generated) == 1
    assert len(results) == 3
    for result in results:
        np.testing.assert_allclose(result, expected(), rtol=1e-5)


def test_a_holder_that_died_does_not_block_others(directory):
    code = (
        "import os; from mlirfuse.support.disk_cache import Cache;"
        "Cache.open().building('k').__enter__(); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    began = time.monotonic()
    with Cache.open().building("k"):
        pass
    assert time.monotonic() - began < 5


def test_the_record_is_readable_json(model, directory):
    mlirfuse.compile(model)
    (path,) = directory.glob("*.json")
    stored = json.loads(path.read_text())
    assert sorted(stored) == ["bytes", "manifest", "sha256"]
    assert stored["manifest"]["report"]["schema"] == 1
