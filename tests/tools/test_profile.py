"""mlirfuse-profile and FusedModule.profile: times of kernels, traces, code, the first NaN."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import mlirfuse
from helpers.browser import page_data
from mlirfuse import targets
from mlirfuse.compilation import open_model, resolved
from mlirfuse.core import CompileFailedError, MlirfuseError, UsageError
from mlirfuse.debug import first_fault, kernel_dump, traced_call
from mlirfuse.final_kernels import FinalKernel
from mlirfuse.kernels import triton_compiler
from mlirfuse.profiling import summary
from mlirfuse.profiling.capture import Call, Capture, Launch
from mlirfuse.profiling.rates import Rates
from mlirfuse.support.subprocess import run_tool
from mlirfuse.tools import profile
from mlirfuse.tools.profile import main
from mlirfuse.tools.run import main as run_main

MODEL = """\
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @main(%a: tensor<256x256xf32>, %b: tensor<256x256xf32>, %c: tensor<4x8xf32>)
    -> (tensor<256x256xf32>, tensor<4x8xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<256x256xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<256x256xf32>) -> tensor<256x256xf32>
  %slow = linalg.matmul ins(%a, %b : tensor<256x256xf32>, tensor<256x256xf32>)
      outs(%f : tensor<256x256xf32>) -> tensor<256x256xf32>
  %s = tensor.empty() : tensor<4x8xf32>
  %root = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%c : tensor<4x8xf32>) outs(%s : tensor<4x8xf32>) {
  ^bb0(%x: f32, %o: f32):
    %y = math.sqrt %x : f32
    linalg.yield %y : f32
  } -> tensor<4x8xf32>
  return %slow, %root : tensor<256x256xf32>, tensor<4x8xf32>
}
"""

ARGUMENTS = ["--input=256x256xf32", "--input=256x256xf32", "--input=4x8xf32=4"]

TWO_KERNELS = ["--disable-feature=kernels", "--disable-feature=data_tiling"]
"""The matmul alone, and the roots: no packing."""

PROFILE = {
    *("schema", "source", "function", "device", "threads", "clock", "profiled_calls"),
    *("wall_us", "min_wall_us", "min_busy_us", "busy_us", "between_us", "rates", "kernels"),
    "stock",
}

KERNEL = {
    *("name", "calls", "min_us", "median_us", "share", "bytes", "flops", "bytes_per_second"),
    *("copy_share", "flops_per_second", "peak_share", "bound", "workgroups", "workgroup_size"),
    *("registers", "shared_memory", "local_memory", "occupancy", "ops", "op_names", "operands"),
    *("code", "pass", "layers", "executable", "launch"),
}


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLIRFUSE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("MLIRFUSE_FLAGS", "MLIRFUSE_CONFIG", "MLIRFUSE_THREADS"):
        monkeypatch.delenv(name, raising=False)
    Path("m.mlir").write_text(MODEL)


def one_error(capsys):
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    return line


def stand_in(name, device="local-task"):
    """A profile of one kernel."""
    launch = Launch(name, 0, 1000, workgroups=(1, 1, 1))
    return summary.profile(
        "m.mlir",
        "main",
        Capture(device, None, "a clock", (Call(2000, (launch,)),)),
        (),
        Rates(None, "not known"),
    )


# Times.


def test_the_slowest_kernel_is_named_first(capsys):
    argv = ["m.mlir", *TWO_KERNELS, *ARGUMENTS, "--calls=8", "--threads=1"]
    assert main([*argv, "--json=p.json", "--trace=t.json"]) == 0
    table = capsys.readouterr().out
    assert "m.mlir @main on local-task, 1 thread: 8 calls" in table
    found = json.loads(Path("p.json").read_text())
    assert found.keys() == PROFILE
    assert all(kernel.keys() == KERNEL for kernel in found["kernels"])
    slow, fast = found["kernels"]
    assert "matmul_256x256x256_f32" in slow["name"]
    assert slow["min_us"] <= slow["median_us"]
    assert (slow["calls"], fast["calls"]) == (1, 1)
    assert slow["share"] > 0.5
    assert sum(kernel["share"] for kernel in found["kernels"]) == pytest.approx(1)
    assert table.index(slow["name"]) < table.index(fast["name"])
    assert found["wall_us"] >= found["busy_us"] > 0
    assert found["rates"]["copy_source"] == "measured here, 1 thread"

    events = json.loads(Path("t.json").read_text())["traceEvents"]
    assert all({"ph", "ts", "dur", "pid", "tid", "name"} <= event.keys() for event in events)
    drawn = [e for e in events if e["ph"] == "X" and e["cat"] == "kernel"]
    assert sorted({e["name"] for e in drawn}) == sorted([slow["name"], fast["name"]])
    assert len(drawn) == 2 * 8
    assert all(e["ts"] >= 0 and e["dur"] >= 0 for e in drawn)


def test_kernels_take_no_longer_than_their_call():
    program = mlirfuse.compile("m.mlir").on("local-sync")
    found = program.profile(calls=10)
    assert found.capture.threads is None
    assert all(0 < call.busy_ns <= call.wall_ns for call in found.capture.calls)
    assert str(found) == found.text()
    found.save_trace("t.json")
    assert json.loads(Path("t.json").read_text()) == found.trace()


def test_scalars_and_other_types_are_passed(tmp_path):
    Path("s.mlir").write_text(
        """
        func.func @main(%x: tensor<2x3xf16>, %flags: tensor<3xi1>, %n: i32, %s: f32,
                        %z: tensor<f32>)
            -> (tensor<3xi1>, tensor<2x3xf16>, tensor<f32>, tensor<i32>, tensor<f32>) {
          %e = tensor.empty() : tensor<2x3xf16>
          %y = linalg.generic {
              indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
              iterator_types = ["parallel", "parallel"]}
              ins(%x : tensor<2x3xf16>) outs(%e : tensor<2x3xf16>) {
          ^bb0(%p: f16, %o: f16):
            %q = arith.negf %p : f16
            linalg.yield %q : f16
          } -> tensor<2x3xf16>
          %i = tensor.from_elements %n : tensor<i32>
          %f = tensor.from_elements %s : tensor<f32>
          return %flags, %y, %z, %i, %f
              : tensor<3xi1>, tensor<2x3xf16>, tensor<f32>, tensor<i32>, tensor<f32>
        }
        """
    )
    program = mlirfuse.compile("s.mlir").on("local-sync")
    arguments = [
        np.ones((2, 3), np.float16),
        np.array([True, False, True]),
        np.int32(3),
        np.float32(2.5),
        np.array(1.0, np.float32),
    ]
    assert program.profile(*arguments, calls=2).kernels
    with pytest.raises(mlirfuse.CallError):
        program.profile(*arguments[:2], calls=2)


def test_a_program_without_a_manifest_has_names_alone(capsys):
    run_tool(
        "iree-compile",
        ["m.mlir", "-o", "p.vmfb", "--iree-hal-target-device=local",
         "--iree-hal-local-target-device-backends=llvm-cpu"],
        stage="test",
    )  # fmt: skip
    assert main(["p.vmfb", *ARGUMENTS, "--calls=3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {(k["bytes"], k["code"], tuple(k["ops"])) for k in found["kernels"]} == {
        (None, None, ())
    }
    assert found["rates"]["matmul"] == {}
    assert main(["p.vmfb", *ARGUMENTS, "--calls=3", "--top=1"]) == 0
    assert "the program has no kernel list" in capsys.readouterr().out


def test_a_call_with_too_many_events_is_an_error(capsys):
    Path("loop.mlir").write_text(
        """
        func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
          %c0 = arith.constant 0 : index
          %c1 = arith.constant 1 : index
          %n = arith.constant 3000 : index
          %r = scf.for %i = %c0 to %n step %c1 iter_args(%x = %a) -> tensor<4xf32> {
            %e = tensor.empty() : tensor<4xf32>
            %y = linalg.generic {
                indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
                iterator_types = ["parallel"]}
                ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
            ^bb0(%p: f32, %o: f32):
              %q = arith.addf %p, %p : f32
              linalg.yield %q : f32
            } -> tensor<4xf32>
            scf.yield %y : tensor<4xf32>
          }
          return %r : tensor<4xf32>
        }
        """
    )
    assert main(["loop.mlir", "--device=local-sync", "--calls=1"]) == 1
    assert "more events than IREE's profiler keeps" in one_error(capsys)


def test_stock_is_measured_beside_it(capsys):
    argv = [
        "m.mlir",
        *ARGUMENTS,
        "--calls=3",
        "--against-stock",
        "--json=p.json",
        "--report=p.html",
    ]
    assert main(argv) == 0
    found = json.loads(Path("p.json").read_text())
    assert found["stock"].keys() == PROFILE - {"schema", "stock"} | {
        "sets",
        "ratio",
        "kernel_ratio",
    }
    assert found["stock"]["ratio"] == pytest.approx(
        found["stock"]["min_wall_us"] / found["min_wall_us"]
    )
    assert "stock IREE: the median call" in capsys.readouterr().out
    page = page_data(Path("p.html"))
    times = [k["measured"]["min_us"] for k in (*page["kernels"], *page["stock"]["kernels"])]
    assert min(times) > 0
    assert page["stock"]["sets"]
    assert page["dispatches"]["stock"] == len(page["stock"]["kernels"])


def test_vulkan_has_timestamps(vulkan, capsys):
    argv = ["m.mlir", f"--target={vulkan}", *ARGUMENTS, "--calls=2", "--dump-kernels=kernels"]
    assert main(argv) == 0
    table = capsys.readouterr().out
    assert "timestamps of the device" in table
    slowest = table.splitlines()[3].split()[0]
    assert "matmul_256x256x256_f32" in slowest
    folder = Path("kernels", f"00_{slowest}")
    assert "spirv.module" in (folder / "kernel.spirv.mlir").read_text()
    assert (folder / "kernel.spv").read_bytes()[:4] == (0x07230203).to_bytes(4, "little")
    assert json.loads((folder / "kernel.json").read_text())["workgroup_size"]


def test_every_kernel_is_one_of_the_programs_list(tmp_path):
    """Of a program from a file too; the facts are those of its manifest."""
    program = mlirfuse.compile("m.mlir", disable_feature=["kernels"])
    program.save("m.vmfb")
    found = mlirfuse.load("m.vmfb").profile(calls=2)
    assert sorted(k.name for k in found.kernels) == sorted(k.name for k in program.kernels)
    assert {k.code for k in found.kernels} == {"iree"}
    formed = [k for k in found.kernels if not k.name.startswith("_encoding")]
    assert all(k.ops and k.bytes and k.operands for k in formed)
    (slow,) = (k for k in formed if "matmul" in k.name)
    assert slow.flops >= 2 * 256**3
    assert any(op.startswith("m.mlir:7") for op in slow.ops)
    assert slow.bound == "compute"
    assert 0 < slow.peak_share < 10
    assert slow.bytes_per_second == pytest.approx(slow.bytes / slow.median_us * 1e6)


# The code of kernels.


def test_kernels_are_dumped_one_by_one():
    argv = ["m.mlir", *TWO_KERNELS, *ARGUMENTS, "--calls=2", "--dump-kernels=kernels"]
    assert main(argv) == 0
    slow, fast = sorted(Path("kernels").iterdir())
    name = slow.name.removeprefix("00_")
    assert {path.name for path in slow.iterdir()} == {
        *("kernel.json", "source.mlir", "configured.mlir", "kernel.ll", "kernel.s"),
    }
    entry = json.loads((slow / "kernel.json").read_text())
    assert entry["name"] == name
    assert len(entry["workgroups"]) == 3
    assert "ncu" not in entry
    assert "linalg.matmul" in (slow / "source.mlir").read_text()
    assert (slow / "kernel.ll").read_text().count("\ndefine ") == 0
    assert f"@{name}(" in (slow / "kernel.ll").read_text().splitlines()[0]
    assert "sqrt" in (fast / "kernel.ll").read_text()
    assert (slow / "kernel.s").read_text().startswith(f"{name}:")
    assert "sqrt" not in (slow / "kernel.s").read_text()
    assert "sqrt" in (fast / "kernel.s").read_text()


TWO_MATMULS = """
func.func @main(%x: tensor<64x256xf16>, %v: tensor<256x512xf16>, %w: tensor<512x128xf16>) -> tensor<64x128xf16> {
  %zero = arith.constant 0.0 : f16
  %e = tensor.empty() : tensor<64x512xf16>
  %f = linalg.fill ins(%zero : f16) outs(%e : tensor<64x512xf16>) -> tensor<64x512xf16>
  %a = linalg.matmul ins(%x, %v : tensor<64x256xf16>, tensor<256x512xf16>) outs(%f : tensor<64x512xf16>) -> tensor<64x512xf16>
  %g = tensor.empty() : tensor<64x128xf16>
  %h = linalg.fill ins(%zero : f16) outs(%g : tensor<64x128xf16>) -> tensor<64x128xf16>
  %b = linalg.matmul ins(%a, %w : tensor<64x512xf16>, tensor<512x128xf16>) outs(%h : tensor<64x128xf16>) -> tensor<64x128xf16>
  return %b : tensor<64x128xf16>
}
"""  # noqa: E501


def test_triton_kernels_of_one_name_have_their_own_sources(tmp_path):
    """The code of a kernel is that of its executable: matmuls are all called `matmul_kernel`."""
    if triton_compiler.missing():
        pytest.skip("needs Triton")
    Path("two.mlir").write_text(TWO_MATMULS)
    dumped, folder = tmp_path / "dumped", tmp_path / "kernels"
    folder.mkdir()
    target = kernel_dump.dumping("cuda:sm_90", dumped)
    with open_model("two.mlir", target=target, options=resolved(None, {})) as work:
        _, report = work.build()
    first, second = report.kernels
    assert first.name == second.name
    assert first.executable != second.executable
    launches = tuple(
        Launch(first.name, at, at + 1000 - at // 2, workgroups=(1, 1, 1)) for at in (0, 1000)
    )
    capture = Capture("cuda", None, "a clock", (Call(2000, launches),))
    rates = Rates(None, "not known")
    found = summary.profile("two.mlir", "main", capture, report.kernels, rates)
    assert [kernel.launch for kernel in found.kernels] == [0, 1]
    made = kernel_dump.write(dumped, found, folder, ["mlirfuse-run", "my m.vmfb"])
    for own, kernel in zip(made, (first, second), strict=True):
        ptx = (own / "kernel.ptx").read_text()
        assert ptx == next(dumped.glob(f"*_{kernel.executable}_cuda_nvptx_fb.ptx")).read_text()
        source = (own / "source.py").read_text()
        assert source == triton_compiler.sources()[ptx.encode()]
        assert f"def {kernel.name}(" in source
        assert f"@{kernel.executable} " in (own / "source.mlir").read_text()
        entry = json.loads((own / "kernel.json").read_text())
        launch = f"--launch-skip={entry['launch']} --launch-count=1"
        assert entry["ncu"] == (
            f"ncu --set full --kernel-name={kernel.name} {launch} mlirfuse-run 'my m.vmfb'"
        )


def test_the_command_for_another_profiler_runs(tmp_path):
    """Of a program for CUDA, here of a CPU that is said to be one."""
    program = mlirfuse.compile("m.mlir")
    args = profile.parser().read(["m.mlir", "--seed=3"])
    assert profile._call(args, program, tmp_path) == []
    program.device = "cuda"
    command, *words = profile._call(args, program, tmp_path)
    assert command == "mlirfuse-run"
    assert run_main([*words, "--device=local-task"]) == 0
    args = profile.parser().read(["m.mlir", "--input=@x.npy", "--function=main"])
    words = profile._call(args, program, tmp_path)
    assert words[2:] == ["--input=@x.npy", "--function=main", "--seed=0"]


def test_a_name_is_not_taken_for_its_beginning(tmp_path):
    dumped, folder = tmp_path / "dumped", tmp_path / "kernels"
    dumped.mkdir()
    folder.mkdir()
    (dumped / "module_c.mlir").write_text("hal.executable.export @k_1")
    (dumped / "module_b.mlir").write_text("hal.executable.export @k")
    (dumped / "a.optimized.ll").write_text("define i32 @k_1(ptr) {\n}\n\ndefine i32 @k(ptr) {\n}\n")
    (dumped / "a.s").write_text("k_1:\n a\n .size\tk_1, 2\nk:\n b\n .size\tk, 2\n")
    (own,) = kernel_dump.write(dumped, stand_in("k"), folder, [])
    assert (own / "source.mlir").read_text().endswith("@k")
    assert (own / "kernel.ll").read_text() == "define i32 @k(ptr) {\n}\n"
    assert (own / "kernel.s").read_text() == "k:\n b\n .size\tk, 2\n"


# The first kernel with a fault.

NAN = ["--input=256x256xf32", "--input=256x256xf32", "--input=4x8xf32=-1"]


def test_sync_names_the_kernel_with_the_nan(capsys):
    assert main(["m.mlir", "--sync", *NAN]) == 1
    (line,) = capsys.readouterr().out.splitlines()
    assert "elementwise" in line
    assert "is the first to give 32 NaN in" in line
    assert main(["m.mlir", "--sync", *ARGUMENTS, "--device=local-sync"]) == 0
    assert capsys.readouterr().out.endswith("dispatches; the results are finite\n")


def test_sync_names_a_nan_that_no_kernel_made(capsys):
    np.save("nan.npy", np.full((4, 8), np.nan, np.float32))
    assert main(["m.mlir", "--sync", *NAN[:2], "--input=@nan.npy"]) == 1
    assert "reads 32 NaN" in capsys.readouterr().out


def test_sync_tells_the_overflow_before_the_nan(capsys):
    """The matmul gives infinite elements, and is named even though it gives no NaN."""
    big = ["--input=256x256xf32=1e30", "--input=256x256xf32=1e30", "--input=4x8xf32=-1"]
    assert main(["m.mlir", "--sync", *big]) == 1
    first, second = capsys.readouterr().out.splitlines()
    assert "NaN" in first
    assert "matmul" in second
    assert "65536 inf" in second


def entry(kernel, side, nan=0, inf=0):
    return {
        "kernel": kernel,
        "side": side,
        "tensors": [None, {"shape": [4], "nan": nan, "inf": inf}],
    }


def test_infinite_elements_are_a_fault_where_they_reach_the_results():
    mask = [entry("mask", "inputs"), entry("mask", "outputs", inf=2)]
    found = first_fault._judged([*mask, entry(traced_call.RESULTS, "outputs")], None)
    assert found.fault is None
    assert found.infinite.kernel == "mask"
    found = first_fault._judged([*mask, entry(traced_call.RESULTS, "outputs", inf=1)], None)
    assert (found.fault.kernel, found.fault.kind, found.infinite) == ("mask", "inf", None)


def test_a_kernel_that_dies_is_named(monkeypatch):
    """The process dies in the second dispatch: the last line of its trace names it."""
    loaded = entry(traced_call.LOADED, "")
    lines = [loaded, entry("a", "inputs"), entry("a", "outputs"), entry("b", "inputs")]

    def die(tool, arguments, **rest):
        path = Path(arguments[-1], traced_call.LINES)
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        raise CompileFailedError("python died with SIGSEGV in stage run", stage="run")

    monkeypatch.setattr(first_fault, "run_tool", die)
    with open_model("m.mlir", target=first_fault.traced("cpu"), options=resolved(None, {})) as work:
        found = first_fault.find(work)
        assert (found.dispatches, found.fault.kind) == (2, "failed")
        assert found.fault.text() == (
            "b (dispatch 1) failed: python died with SIGSEGV in stage run"
        )
        lines.remove(loaded)
        assert first_fault.find(work).fault.text() == (
            "b (when the program is loaded) failed: python died with SIGSEGV in stage run"
        )
        for left in ([], [loaded]):
            lines[:] = left
            with pytest.raises(CompileFailedError, match="SIGSEGV"):
                first_fault.find(work)


@pytest.mark.parametrize(
    ("layers", "where"),
    [
        (("l1", "l1"), "l1 at m.py:5:0"),
        (("l1", ""), "l1 and ops outside of layers, at m.py:5:0"),
        (("", ""), "at m.py:5:0"),
    ],
)
def test_a_kernel_with_ops_outside_of_layers_names_both(layers, where):
    ops = ("m.py:4:0", "m.py:5:0")
    kernel = FinalKernel("k", "main", ops, ("linalg.generic",) * 2, (), 0, 0, layers=layers)
    assert first_fault._where(kernel) == where


# Wrong usage.


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "PROGRAM.vmfb or MODEL is missing"),
        (["m.mlir", "--calls=0"], "--calls takes a number from 1"),
        (["m.mlir", "--threads=-1"], "--threads takes a number from 1"),
        (["m.mlir", "--top=0"], "--top takes a number from 1"),
        (["m.mlir", "--calls=x"], "invalid int value"),
        (["m.mlir", "--tops=1"], "unknown switch '--tops'; did you mean '--top'"),
        (["m.mlir", "--input=4x8"], "'4x8' is not a tensor"),
        (["m.mlir", "--target=gpu"], "'gpu'"),
        (["absent.vmfb"], "cannot read absent.vmfb"),
        (["p.vmfb", "--sync"], "--sync compiles the model again; give MODEL"),
        (["p.vmfb", "--against-stock"], "--against-stock compiles the model again"),
        (["p.vmfb", "--dump-kernels=k"], "--dump-kernels compiles the model again"),
        (["m.mlir", "--sync", "--top=3"], "--sync measures nothing; remove it or --top"),
        (["m.mlir", "--sync", "--json"], "--sync measures nothing; remove it or --json"),
        (["m.mlir", "--sync", "--parameters=w.irpa"], "--sync takes no --parameters"),
        (["m.mlir", "--json=o.json", "--trace=o.json"], "have to name different files"),
        (["m.mlir", "--trace=absent/t.json"], "cannot write absent/t.json"),
        (["m.mlir", "--device=local-sync", "--threads=2"], "threads=2 is for device local-task"),
    ],
)
def test_wrong_usage_is_refused_in_one_line(argv, message, capsys):
    Path("p.vmfb").write_bytes(b"a program")
    assert main(argv) == 2
    assert message in one_error(capsys)
    assert not list(Path().glob("*.json"))


def test_devices_without_a_profiler_are_refused():
    program = mlirfuse.compile("m.mlir")
    program.device = "hip"
    object.__setattr__(program._manifest, "device", "hip")
    with pytest.raises(MlirfuseError, match="device 'hip' has no profiler"):
        program.profile()
    with pytest.raises(UsageError, match="calls=0"):
        program.profile(calls=0)


def test_the_traced_call_reports_a_program_that_fails(tmp_path, capsys, monkeypatch):
    """Its process ends with one line: a manifest of a function that the program does not have."""
    with open_model("m.mlir", target="cpu", options=resolved(None, {})) as work:
        image, report = work.build()
        manifest = work.manifest(report)
        object.__setattr__(manifest, "function", "absent")
        (tmp_path / traced_call.REQUEST).write_bytes(
            traced_call.pickle.dumps((manifest, image.path, []))
        )
        monkeypatch.setattr(sys, "argv", ["traced_call", str(tmp_path)])
        assert traced_call.main() == 1
    assert "no function 'absent'" in capsys.readouterr().err


def test_a_target_that_is_traced_or_dumped_keeps_its_flags(tmp_path):
    target = targets.parse("cpu")
    assert first_fault.traced("cpu").flags == (*target.flags, first_fault.TRACE)
    assert kernel_dump.dumping(target, tmp_path).flags[:-1] == target.flags


def test_sync_counts_the_dispatches_that_prepare_weights_apart(capsys, tmp_path, monkeypatch):
    (tmp_path / "packed.py").write_text(
        "import torch\n"
        "def make():\n"
        "    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.LayerNorm(64))\n"
        "    return model.eval(), (torch.randn(8, 64),)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main(["packed:make", "--sync"]) == 0
    assert (
        capsys.readouterr().out == "2 dispatches, 1 more prepare weights; the results are finite\n"
    )
