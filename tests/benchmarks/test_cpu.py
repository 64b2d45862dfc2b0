"""The CPU benchmark: models, processes that take turns, the record and its tables."""

import dataclasses
import importlib
import json
import os
import shutil
import sys
import time

import pytest
import torch

from benchmarks import __main__ as command
from benchmarks import results
from benchmarks.cpu import (
    exported,
    narrow_packages,
    peers,
    record,
    report,
    rows,
    systems,
    vision,
    wrapped,
)
from mlirfuse.benchmarking.environment import environment
from mlirfuse.benchmarking.process import started
from mlirfuse.benchmarking.timing import Samples
from mlirfuse.core import MlirfuseError


def test_rows_have_names_of_their_own():
    names = [row.name for row in rows.ROWS]
    assert len(set(names)) == len(names)
    assert len(rows.WORK) >= 20
    assert not any("," in name for name in names), "--only separates words by commas"
    assert rows.select(["resnet-18"]) == [rows.find("ResNet-18 f32")]
    assert rows.SMOKE not in rows.select([])


@pytest.mark.parametrize("make", [vision.mobilenet_v3, vision.unet])
def test_networks_with_batch_norms_keep_the_scale_of_their_values(make):
    module, (image,) = make(64)
    again, _ = make(64)
    with torch.no_grad():
        result = module(image)
        assert torch.equal(result, again(image))
    assert not module.training
    assert 1e-2 < result.std() < 1e2


def test_no_norm_is_the_identity():
    norm = torch.nn.LayerNorm(64)
    with torch.no_grad():
        wrapped.varied(norm)
    assert norm.weight.std() > 0.01


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    pytest.importorskip("onnxscript", reason="needs onnxscript: pip install 'mlirfuse[bench]'")
    made = tmp_path_factory.mktemp("row")
    with started(systems.WORKER, request(systems.EXPORT, made), {}) as process:
        assert process.line(120) == {}
    return made


def request(system, folder):
    return {
        "row": rows.SMOKE.name,
        "system": system,
        "threads": 1,
        "target": "cpu",
        "folder": str(folder),
    }


def test_a_system_in_a_process_of_its_own(folder):
    variables = environment(1, "host")
    with started(systems.WORKER, request(systems.EAGER, folder), variables) as process:
        ready = process.line(120)
        assert 0 < ready["error"] < 1e-5
        times = process.burst()
        assert times
        assert all(seconds > 0 for seconds in times)
        assert state(process.group) == "T", "a system whose turn it is not takes no core"
        assert process.burst()
    assert not os.path.exists(f"/proc/{process.group}")


def state(process):
    """The state of a process as the kernel has it, after it had time to stop."""
    for _ in range(50):
        with open(f"/proc/{process}/stat") as file:
            found = file.read().rpartition(")")[2].split()[0]
        if found == "T":
            break
        time.sleep(0.02)
    return found


def test_a_process_that_fails_says_why(folder, tmp_path):
    for name in (exported.INPUTS, exported.EXPECTED):
        shutil.copy(folder / name, tmp_path)
    with started(systems.WORKER, request(systems.ONNX_RUNTIME, tmp_path), {}) as process:
        assert "said" in process.line(120), "without the package or the model"
    with started(systems.WORKER, {"row": "none"}, {}) as process:
        assert process.line(120) is None
        assert process.end() == "its process ended with exit code 1: StopIteration"
    with started(systems.WORKER, request(systems.EAGER, folder), {}) as process:
        assert process.line(0.01) is None
        assert process.end() == "no answer in time"


# OpenVINO forks, and JAX may be loaded by a test before.
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")
@pytest.mark.parametrize("system", systems.FROM_ONNX)
def test_systems_that_read_onnx(system, folder):
    pytest.importorskip(system, reason=f"{system} is in the extra 'bench'")
    inputs, expected = exported.read(folder)
    call = peers.make_call(system, rows.SMOKE, inputs, folder / exported.ONNX, 1, False)
    assert exported.error(peers.tensors(call()), expected) < 1e-4


def test_an_error_of_another_shape_or_without_a_number_is_infinite():
    exact = [torch.ones(3, dtype=torch.float64)]
    assert exported.error([torch.tensor([1, 1, 1.5])], exact) == 0.5
    assert exported.error([torch.ones(2)], exact) == float("inf")
    assert exported.error([torch.tensor([1, torch.nan, 1])], exact) == float("inf")
    with pytest.raises(ValueError, match="argument"):
        exported.error([], exact)


def test_a_narrower_target_limits_the_peers():
    assert "ONEDNN_MAX_CPU_ISA" not in environment(2, "host")
    assert "ONEDNN_MAX_CPU_ISA" not in environment(2, "x86-64-v4")
    limited = environment(2, "x86-64-v3")
    assert limited["ATEN_CPU_CAPABILITY"] == "avx2"
    assert limited["OMP_NUM_THREADS"] == limited["MLIRFUSE_THREADS"] == "2"


def test_copies_of_libraries_see_no_avx512():
    """XGETBV says which registers are saved where ECX is zero; other bytes stay."""
    saved, other = b"\x31\xc9\x0f\x01\xd0\x24\xe6", b"\x83\xe0\x0f\x01\xd0"
    leaf = b"\xb8\x07\x00\x00\x00\xb9\x01\x00\x00\x00\x0f\xa2"
    pad = bytes([0x90] * 30)
    narrowed, count = narrow_packages.narrow(pad.join((other, saved, leaf)))
    assert count == 2
    assert narrowed == pad.join((other, b"\x31\xc9\xb0\x07\x90\x24\xe6", leaf[:-2] + b"\x31\xc0"))


def test_a_process_imports_the_copies(tmp_path, monkeypatch):
    (tmp_path / "openvino.py").write_text("copied = True\n")
    monkeypatch.setattr(narrow_packages, "folder", lambda name: tmp_path)
    monkeypatch.delitem(sys.modules, "openvino", raising=False)
    monkeypatch.setattr(sys, "path", [*sys.path])
    narrow_packages.use("openvino")
    assert importlib.import_module("openvino").copied
    with pytest.raises(MlirfuseError, match="openvino is imported already"):
        narrow_packages.use("openvino")
    del sys.modules["openvino"]


def test_quantized_layers_of_pytorch_do_not_count_where_they_are_not_limited():
    row = made("BERT 6x384 1x128 i8")
    assert report.best(row) == ("onnxruntime", 0.5)
    slow = made("BERT 6x384 1x128 i8", slow=0.1)
    assert report.best(slow) == ("eager", pytest.approx(0.1))
    assert report.best(slow, is_narrow=True) == ("onnxruntime", 0.5)


def made(name="ResNet-18 f32", slow=2.0, date="2026-01-01", **changes):
    notes = {
        "ours": {"error": 1e-6, "dispatches": 5, "own_s": 0.1, "compile_s": 2.0},
        "stock": {"error": 1e-6, "dispatches": 9, "compile_s": 1.0},
        "eager": {"error": 1e-6},
        "onnxruntime": {"error": 1e-6},
    } | changes
    samples = Samples(
        {
            "ours": [1e-3, 2e-3],
            "stock": [3e-3, 6e-3],
            "eager": [slow * 1e-3, slow * 2e-3],
            "onnxruntime": [5e-4, 1e-3],
        }
    )
    found = record.row(rows.find(name), notes, samples)
    found.details["measured"] = date
    return found


def test_ratios_are_of_rounds_and_wrong_results_do_not_count():
    found = made()
    assert found.ratios["stock"]["median"] == pytest.approx(3)
    assert report.best(found) == ("onnxruntime", pytest.approx(0.5))
    assert report.over_stock(found) == pytest.approx(3)
    assert report.own_share(found) == pytest.approx(0.1)
    wrong = made(onnxruntime={"error": 0.5})
    assert report.best(wrong) == ("eager", pytest.approx(2))
    assert "onnxruntime: wrong: error 5.0e-01" in report.line(wrong, 2)
    many = made("ResNet-50 bf16", ours={"error": 0.14}, eager={"error": 0.1})
    assert many.ours_ms is not None
    more = made("ResNet-50 bf16", ours={"error": 0.16}, eager={"error": 0.1})
    assert more.ours_ms is None
    failed = made(ours={"said": "it refused"})
    assert failed.ours_ms is None
    assert report.best(failed) is None
    assert "it refused" in report.line(failed, 2)


@pytest.mark.parametrize(
    ("arch", "instructions", "limited"),
    [
        ("x86-64-v3", ["avx2", "avx512f"], True),
        ("x86-64-v3", ["avx2"], False),
        ("host", ["avx2", "avx512f"], False),
    ],
)
def test_quantized_layers_of_pytorch_do_not_count_where_others_are_limited(
    arch, instructions, limited
):
    assert report.is_limited(arch, instructions) == limited
    found = dataclasses.replace(made(), dtype="i8")
    found.ratios["eager"]["median"] = 0.25
    assert report.line(found, 2, is_narrow=limited).startswith(" 0.50" if limited else " 0.25")


def test_record_of_rows_that_are_measured_one_by_one(tmp_path):
    def save(row, threads=2):
        record.save(row, "host", threads, 0.0, tmp_path)

    save(made("MobileNetV2 f32"))
    save(made("ResNet-18 f32", slow=4.0))
    save(made("ResNet-18 f32"), threads=1)
    save(made("ResNet-18 f32", date="2026-02-01"))
    entries = record.load_all(tmp_path)
    assert len(entries) == 2
    kept = record.load(record.key("host", 2), tmp_path)
    assert [row.work for row in kept] == ["ResNet-18", "MobileNetV2"]
    assert kept[0].ratios["eager"]["median"] == 2
    (entry, _) = entries.values()
    assert not record.as_results(entry).complete
    assert record.as_results(entry).device == results.cpu_name()
    chosen = rows.select(["resnet-18", "mobilenetv2", "swin"])
    ordered = [row.work for row in record.oldest_first(chosen, [kept])]
    assert ordered == ["Swin-T", "MobileNetV2", "ResNet-18"]


def test_tables_of_the_record(tmp_path):
    record.save(made(), "x86-64-v3", 2, 0.0, tmp_path)
    record.save(made("Swin-T f32", onnxruntime={"said": "no"}), "x86-64-v3", 2, 0.0, tmp_path)
    page = report.markdown(record.load_all(tmp_path))
    assert "## Models on a CPU, x86-64-v3, 2 threads\n" in page
    assert "Geometric means: 1.00 over the best peer" in page
    assert "1 of 2 rows under 0.85; 3.00 over the faster of IREE's flags" in page
    assert (
        "| ResNet-18 | f32 | 1.5 | 3.00 |  | 2.00 |  |  | 0.50 |  | 0.50 | 5/9 | 2/1 | 10% |"
        in page
    )
    assert "### The worst\n" in page
    assert "| onnxruntime | no | Swin-T f32 | 1 |" in page
    assert report.markdown({}) == ""


def test_instructions_of_the_machine(tmp_path):
    info = tmp_path / "cpuinfo"
    info.write_text("flags\t: fma avx2 sse2\n\nflags\t: avx512f\n")
    assert record.instructions(info) == ["avx2", "fma"]
    assert record.instructions(tmp_path / "absent") == []


def test_wrong_requests_are_usage_errors(capsys):
    for words in (["--only=Lime"], ["--threads=0"], ["--systems=theirs"], ["--target=cuda:sm_80"]):
        assert command.main(["cpu", *words]) == 2
    assert capsys.readouterr().err.count("error: ") == 4
    assert command.main(["cpu", "--list", "--only=Swin"]) == 0
    assert capsys.readouterr().out == "Swin-T f32\n"


def test_a_run_of_a_tiny_model(tmp_path, capsys):
    words = ["--only=smoke", "--systems=ours,eager", "--threads=1", "--seconds=0.1"]
    assert command.main(["cpu", *words, f"--results={tmp_path}"]) == 0
    assert "smoke test f32, threads 1: ours" in capsys.readouterr().out
    (entry,) = json.loads((tmp_path / record.PARTIAL_FILE).read_text()).values()
    (row,) = entry["rows"]
    assert row["details"]["rounds"] >= 5
    assert row["ratios"].keys() == {"eager"}
    assert row["details"]["systems"]["ours"]["own_s"] > 0
    assert entry["target"] == "host"
    assert entry["threads"] == 1
    assert not (tmp_path / record.FILE).exists()
