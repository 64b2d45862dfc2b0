import gc
import json
import subprocess
import sys
import textwrap
import threading
import weakref
import zipfile

import iree.runtime
import ml_dtypes
import numpy as np
import pytest

import mlirfuse
from mlirfuse.core import CallError, MlirfuseError, UsageError
from mlirfuse.runtime import (
    abi,
    devices,
    exchange,
    host_memory,
    manifest,
    module,
    prepared_call,
    pytree,
)
from mlirfuse.support import environment_numbers
from mlirfuse.support.subprocess import find_tool, run_tool

MANY = """
func.func @main(%x: tensor<?x16xf32>, %keep: tensor<4xi1>, %h: tensor<8xbf16>, %s: tensor<f32>,
                %n: tensor<3xi64>, %none: tensor<0x4xf32>)
    -> (tensor<?x16xf32>, tensor<4xi1>, tensor<8xbf16>, tensor<f32>, tensor<3xi64>, tensor<0x4xf32>,
        tensor<?x16xf32>) {
  %true = arith.constant dense<true> : tensor<4xi1>
  %twice = arith.addf %x, %x : tensor<?x16xf32>
  %drop = arith.xori %keep, %true : tensor<4xi1>
  %hh = arith.addf %h, %h : tensor<8xbf16>
  %ss = arith.addf %s, %s : tensor<f32>
  %nn = arith.addi %n, %n : tensor<3xi64>
  return %x, %drop, %hh, %ss, %nn, %none, %twice
      : tensor<?x16xf32>, tensor<4xi1>, tensor<8xbf16>, tensor<f32>, tensor<3xi64>,
        tensor<0x4xf32>, tensor<?x16xf32>
}
"""

SCALARS = """
func.func @main(%i: i32, %f: f32, %x: tensor<4xf32>) -> (i32, tensor<4xf32>) {
  %e = tensor.empty() : tensor<4xf32>
  %t = linalg.fill ins(%f : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %y = arith.mulf %x, %t : tensor<4xf32>
  return %i, %y : i32, tensor<4xf32>
}
"""

ADD = """
func.func @main(%x: tensor<512x512xf32>, %y: tensor<512x512xf32>) -> tensor<512x512xf32> {
  %z = arith.addf %x, %y : tensor<512x512xf32>
  return %z : tensor<512x512xf32>
}
"""


@pytest.fixture(scope="module")
def many():
    return mlirfuse.compile(MANY, cache=False)


@pytest.fixture(scope="module")
def add():
    return mlirfuse.compile(ADD, cache=False)


def inputs():
    rng = np.random.default_rng(0)
    return [
        rng.standard_normal((5, 16), np.float32),
        np.array([True, False, True, True]),
        np.arange(8).astype(ml_dtypes.bfloat16),
        np.array(3, np.float32),
        np.array([1, -2, 1 << 40]),
        np.zeros((0, 4), np.float32),
    ]


def as_numpy(value):
    if type(value).__module__.startswith("torch"):
        value = value.float() if str(value.dtype) == "torch.bfloat16" else value
        return value.numpy()
    return np.asarray(value)


def check(results, given):
    x, keep, h, s, n, none = map(as_numpy, given)
    for got, want in zip(results, (x, ~keep, h + h, s + s, n + n, none, x + x), strict=True):
        got = as_numpy(got)
        assert got.shape == want.shape
        np.testing.assert_array_equal(got.astype(np.float64), want.astype(np.float64))


def as_torch(values):
    import torch

    return [
        torch.from_numpy(v.astype(np.float32)).bfloat16()
        if v.dtype == ml_dtypes.bfloat16
        else torch.from_numpy(v)
        for v in values
    ]


def as_jax(values):
    import jax.numpy as jnp

    return [jnp.asarray(v) for v in values]


# --- kinds of arrays -----------------------------------------------------------------------------


def test_numpy_in_numpy_out(many):
    given = inputs()
    results = many(*given)
    check(results, given)
    assert all(isinstance(r, np.ndarray) for r in results)
    names = ["float32", "bool", "bfloat16", "float32", "int64", "float32", "float32"]
    assert [r.dtype.name for r in results] == names


def test_torch_in_torch_out(many):
    import torch

    given = as_torch(inputs())
    results = many(*given)
    check(results, given)
    assert [r.dtype for r in results] == [t.dtype for t in given] + [torch.float32]


def test_jax_in_jax_out(many):
    import jax

    with jax.enable_x64():
        given = as_jax(inputs())
        results = many(*given)
        check(results, given)
        assert all(isinstance(r, jax.Array) for r in results)


def test_mixed_in_numpy_out(many):
    given = inputs()
    given[:1] = as_torch(given[:1])
    results = many(*given)
    check(results, given)
    assert all(isinstance(r, np.ndarray) for r in results)


def test_numbers_and_lists_follow_the_arrays(many):
    import torch

    given = inputs()
    tensors = as_torch(given)
    results = many(*tensors[:3], 3.0, [1, -2, 1 << 40], given[5].tolist() or tensors[5])
    check(results, given)
    assert all(isinstance(r, torch.Tensor) for r in results)
    assert isinstance(many(*given[:3], 3, given[4].tolist(), given[5])[3], np.ndarray)


def test_a_parameter_that_requires_a_gradient(add):
    import torch

    x = torch.nn.Parameter(torch.ones(512, 512))
    exchange._warn_of_gradients.cache_clear()
    with pytest.warns(UserWarning, match="an argument requires a gradient"):
        result = add(x, x)
    assert not result.requires_grad
    assert torch.equal(result, 2 * torch.ones(512, 512))


def strided(x):
    return np.ascontiguousarray(x.T).T


def reversed_rows(x):
    return x[::-1].copy()[::-1]


def read_only(x):
    x = x.copy()
    x.flags.writeable = False
    return x


def big_endian(x):
    return x.astype(">f4")


def unaligned(x):
    raw = np.zeros(x.nbytes + 128, np.uint8)
    start = -raw.ctypes.data % 64 + 4
    view = raw[start : start + x.nbytes].view(x.dtype).reshape(x.shape)
    view[...] = x
    return view


def aligned(x):
    raw = np.zeros(x.nbytes + 64, np.uint8)
    start = -raw.ctypes.data % 64
    view = raw[start : start + x.nbytes].view(x.dtype).reshape(x.shape)
    view[...] = x
    return view


LAYOUTS = [strided, reversed_rows, read_only, big_endian, unaligned, aligned]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_numpy_layouts(add, layout):
    x = np.random.default_rng(0).standard_normal((512, 512)).astype(np.float32)
    np.testing.assert_array_equal(add(layout(x), x), x + x)


@pytest.mark.parametrize("layout", [strided, unaligned, aligned])
def test_torch_layouts(add, layout):
    import torch

    x = np.random.default_rng(0).standard_normal((512, 512)).astype(np.float32)
    np.testing.assert_array_equal(add(torch.from_numpy(layout(x)), torch.from_numpy(x)), x + x)


def test_aligned_memory_is_shared_and_other_memory_is_not(add, monkeypatch):
    uploads = []

    def record(raw, device):
        uploads.append(raw)
        return host_memory.uploaded(raw, device)

    for module_that_uploads in (exchange, prepared_call):
        monkeypatch.setattr(module_that_uploads, "uploaded", record)
    x = aligned(np.ones((512, 512), np.float32))
    add(x, x)
    assert not uploads
    add(unaligned(x), x)
    assert len(uploads) == 1


# --- memory --------------------------------------------------------------------------------------


@pytest.mark.parametrize("convert", [list, as_torch])
def test_a_result_that_is_an_argument_is_a_copy(many, convert):
    given = convert([aligned(inputs()[0]), *inputs()[1:]])
    result = many(*given)[0]
    given[0][...] = 7
    np.testing.assert_array_equal(as_numpy(result), inputs()[0])


@pytest.mark.parametrize("convert", [list, as_torch, as_jax])
def test_results_are_not_overwritten(add, convert):
    """A slice outlives the array it was cut from, the arguments and later calls."""
    kept = []
    for number in range(8):
        x, y = convert([np.full((512, 512), float(number), np.float32)] * 2)
        kept.append(add(x, y)[3:5])
        del x, y
        np.full((512, 512), -1.0, np.float32)
    gc.collect()
    for number, result in enumerate(kept):
        np.testing.assert_array_equal(as_numpy(result), np.full((2, 512), 2.0 * number))


def test_results_can_be_written_and_do_not_change_the_program():
    text = ADD.replace("%z = arith.addf %x, %y", "%c = arith.constant dense<3.0>")
    text = text.replace("return %z", "return %c").replace(
        "%c = arith.constant dense<3.0> : tensor<512x512xf32>",
        "%c = arith.constant dense<3.0> : tensor<512x512xf32>",
    )
    program = mlirfuse.compile(text, cache=False)
    x = np.zeros((512, 512), np.float32)
    program(x, x)[...] = 0
    np.testing.assert_array_equal(program(x, x), np.full((512, 512), 3.0))


def test_an_array_of_no_elements_has_a_buffer():
    """CUDA's allocator refuses a buffer of no bytes."""
    sizes = []

    class Allocator:
        def allocate_buffer_copy(self, **arguments):
            sizes.append(arguments["buffer"].nbytes)
            return real.allocator.allocate_buffer_copy(**{**arguments, "device": real})

    class Device:
        allocator = Allocator()

    real = devices.open_device("local-task")
    sender = exchange.Exchange("local-task", Device(), "numpy")
    view = sender.send(np.zeros((0, 4), np.float32))
    assert (view.shape, sizes) == ([0, 4], [1])


def test_memory_that_is_shared_lives_as_long_as_the_call(add):
    sender = exchange.Exchange("local-task", devices.open_device("local-task"), "numpy")
    x = aligned(np.ones((4, 4), np.float32))
    owner = weakref.ref(x.base)
    view = sender.send(x)
    del x
    gc.collect()
    assert owner() is not None
    del view, sender
    gc.collect()
    assert owner() is None


@pytest.mark.parametrize("package", ["jax.numpy", "torch"])
def test_results_of_a_device_that_the_package_lacks(package, monkeypatch):
    """The CPU stands in for a GPU of which JAX and PyTorch know nothing."""
    arrays = pytest.importorskip(package)
    x = arrays.ones((4, 4))
    device = devices.open_device("local-task")
    monkeypatch.setattr(exchange, "dlpack_type", lambda uri: exchange._CUDA)
    sender = exchange.Exchange("cuda", device, "torch" if package == "torch" else "jax")
    found = sender.receive(sender.send(x), None)
    assert type(found) is type(x)
    assert found.device == x.device
    np.testing.assert_array_equal(np.asarray(found), np.asarray(x))


WRITES = """
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @main(%sorted: tensor<4x6xf32>, %updated: tensor<4x6xf32>, %part: tensor<2x6xf32>,
                %looped: tensor<4x6xf32>)
    -> (tensor<4x6xf32>, tensor<24xf32>, tensor<4x6xf32>) {
  %0 = iree_linalg_ext.sort dimension(1) outs(%sorted : tensor<4x6xf32>) {
  ^bb0(%a: f32, %b: f32):
    %less = arith.cmpf olt, %a, %b : f32
    iree_linalg_ext.yield %less : i1
  } -> tensor<4x6xf32>
  %flat = tensor.collapse_shape %updated [[0, 1]] : tensor<4x6xf32> into tensor<24xf32>
  %line = tensor.collapse_shape %part [[0, 1]] : tensor<2x6xf32> into tensor<12xf32>
  %1 = tensor.insert_slice %line into %flat[6] [12] [1] : tensor<12xf32> into tensor<24xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %2 = scf.for %i = %c0 to %c3 step %c1 iter_args(%t = %looped) -> tensor<4x6xf32> {
    %next = tensor.insert_slice %part into %t[%i, 0] [2, 6] [1, 1]
        : tensor<2x6xf32> into tensor<4x6xf32>
    scf.yield %next : tensor<4x6xf32>
  }
  return %0, %1, %2 : tensor<4x6xf32>, tensor<24xf32>, tensor<4x6xf32>
}
"""


def test_a_program_does_not_write_into_its_arguments():
    import torch

    program = mlirfuse.compile(WRITES, stock=True, cache=False)
    rng = np.random.default_rng(0)
    given = [aligned(rng.standard_normal((n, 6), np.float32)) for n in (4, 4, 2, 4)]
    before = [x.copy() for x in given]
    program(*map(torch.from_numpy, given))
    by_order, by_update, by_loop = program(*given)
    for x, y in zip(given, before, strict=True):
        np.testing.assert_array_equal(x, y)
    np.testing.assert_array_equal(by_order, np.sort(before[0]))
    np.testing.assert_array_equal(by_update[6:18], before[2].ravel())
    np.testing.assert_array_equal(by_update[18:], before[1].ravel()[18:])
    np.testing.assert_array_equal(by_loop[:3], before[2][[0, 0, 0]])


EQUAL = """
func.func @main(%x: tensor<4x4xf32>)
    -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<3x4xf32>, tensor<2xf32>) {
  %y = arith.addf %x, %x : tensor<4x4xf32>
  %part = tensor.extract_slice %y[1, 0] [3, 4] [1, 1] : tensor<4x4xf32> to tensor<3x4xf32>
  %constant = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  return %y, %y, %part, %constant : tensor<4x4xf32>, tensor<4x4xf32>, tensor<3x4xf32>, tensor<2xf32>
}
"""


def test_each_result_has_memory_of_its_own():
    import torch

    program = mlirfuse.compile(EQUAL, cache=False)
    for x in (np.ones((4, 4), np.float32), torch.ones(4, 4)):
        first, second, part, constant = program(x)
        first += 100
        constant += 100
        assert (second == 2).all()
        assert (part == 2).all()
        assert list(program(x)[3]) == [1, 2]


def test_results_are_copied_into_out(many):
    given = inputs()
    numpy_out = [np.empty_like(r) for r in many(*given)]
    torch_out = [r.clone() for r in many(*as_torch(given))]
    for arguments in (given, as_torch(given)):
        for out in (numpy_out, torch_out):
            for array in out:
                array[...] = 0
            results = many(*arguments, out=out)
            assert all(x is y for x, y in zip(results, out, strict=True))
            check(results, given)


def test_a_number_is_copied_into_out():
    program = mlirfuse.compile(SCALARS, cache=False)
    x = np.ones(4, np.float32)
    out = [np.zeros((), np.int32), np.zeros(4, np.float32)]
    program(3, 2.0, x, out=out)
    assert out[0] == 3
    assert list(out[1]) == [2] * 4


def test_an_argument_of_the_model_called_out():
    import torch

    program = mlirfuse.compile(
        lambda out: out + 1, {"out": torch.zeros(4)}, stock=True, cache=False
    )
    assert (program(out=torch.ones(4)) == 2).all()


def test_an_out_that_does_not_fit(add):
    x = np.ones((512, 512), np.float32)
    name, right = add.source, np.empty((512, 512), np.float32)
    assert call_error(add, x, x, out=[right, right]) == f"{name}: out holds 2 arrays; expected 1"
    for out, message in [
        (np.empty((512, 2), np.float32), "out is 512x2xf32; expected 512x512xf32"),
        (np.empty((512, 512)), "out is 512x512xf64; expected 512x512xf32"),
        (3.0, "out is of type float; an array of numpy or torch would be accepted"),
        (np.broadcast_to(np.float32(0), (512, 512)), "out cannot be written; a writable array"),
    ]:
        assert call_error(add, x, x, out=out).startswith(f"{name}: result 0: {message}")
    assert add(x, x, out=right) is right
    assert (right == 2).all()


EXIT = """
    import sys
    import numpy as np, torch, mlirfuse
    program = mlirfuse.load(sys.argv[1])
    arrays = [np.full((512, 512), float(n), np.float32) for n in range(3)]
    tensors = [torch.from_numpy(x) for x in arrays]
    kept = [program(x, x) for x in arrays + tensors]
    if sys.argv[2] == "early":
        np.kept = kept  # a module that was imported before iree-runtime, and is cleared after it
    if sys.argv[2] == "cycle":
        kept.append(kept)  # collected after all modules
        np.kept = kept
    del program
"""


@pytest.mark.parametrize("spec", ["cpu", "vulkan"])
@pytest.mark.parametrize("place", ["early", "late", "cycle"])
def test_results_alive_at_exit_are_no_crash(tmp_path, request, spec, place):
    target = request.getfixturevalue("vulkan") if spec == "vulkan" else spec
    mlirfuse.compile(ADD, target=target, cache=False).save(tmp_path / "add.vmfb")
    command = [sys.executable, "-c", textwrap.dedent(EXIT), tmp_path / "add.vmfb", place]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# --- arguments -----------------------------------------------------------------------------------


def call_error(program, *args, **kwargs):
    with pytest.raises(CallError) as caught:
        program(*args, **kwargs)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_dynamic_size_may_be_anything(many):
    for size in (1, 2, 17):
        given = [np.ones((size, 16), np.float32), *inputs()[1:]]
        check(many(*given), given)


def test_wrong_arguments(many):
    given = inputs()
    name = many.source
    assert call_error(many).startswith(f"{name}: number of arguments is 0; expected 6 (")
    wrong = [np.ones((5, 17), np.float32), *given[1:]]
    assert call_error(many, *wrong) == f"{name}: argument '0' is 5x17xf32; expected ?x16xf32"
    wrong = [np.ones((5, 16)), *given[1:]]
    assert call_error(many, *wrong) == f"{name}: argument '0' is 5x16xf64; expected ?x16xf32"
    wrong = [np.ones(16, np.float32), *given[1:]]
    assert call_error(many, *wrong) == f"{name}: argument '0' is 16xf32; expected ?x16xf32"
    wrong = [*given[:3], "three", *given[4:]]
    assert call_error(many, *wrong) == f"{name}: argument '3' is of type str; expected f32"
    wrong = [*given[:4], [1.5, 2, [3]], given[5]]
    assert call_error(many, *wrong) == f"{name}: argument '4' is of type list; expected 3xi64"
    wrong = [*given[:4], as_torch([np.ones(3, np.int32)])[0], given[5]]
    assert call_error(many, *wrong) == f"{name}: argument '4' is 3xi32; expected 3xi64"


def test_signedness_is_not_in_the_types_of_a_program(many):
    given = inputs()
    given[4] = np.array([1, 2, 3], np.uint64)
    np.testing.assert_array_equal(many(*given)[4], [2, 4, 6])


def test_numbers_of_the_abi():
    program = mlirfuse.compile(SCALARS, cache=False)
    x = np.arange(4, dtype=np.float32)
    number, result = program(7, 2.5, x)
    assert number == 7
    np.testing.assert_array_equal(result, 2.5 * x)
    assert "is 4xf32; expected i32" in call_error(program, x, 2.5, x)


def named(program):
    """The same program with names for its arguments, as a loaded one has them."""
    entry = program._manifest.to_dict()
    for spec, name in zip(entry["inputs"], ("left", "right"), strict=True):
        spec["name"] = name
    return module.FusedModule(program._image, manifest.Manifest.from_dict(entry))


def test_arguments_by_name(add):
    program = named(add)
    x, y = np.ones((512, 512), np.float32), np.full((512, 512), 5, np.float32)
    for result in (program(x, y), program(x, right=y), program(right=y, left=x)):
        np.testing.assert_array_equal(result, x + y)
    assert "no argument is called 'rigth'; did you mean 'right'?" in call_error(program, x, rigth=y)
    assert "argument 'left' is given twice" in call_error(program, x, left=x)
    assert "number of arguments is 1; expected 2 (left: 512x512xf32, " in call_error(program, x)
    assert "argument 'right' is 2xf32" in call_error(program, x, y[0, :2])


# --- devices -------------------------------------------------------------------------------------


def test_the_calling_thread_alone(add):
    x = np.ones((512, 512), np.float32)
    np.testing.assert_array_equal(add.on("local-sync")(x, x), x + x)


@pytest.mark.parametrize("convert", [list, as_torch, as_jax])
def test_vulkan(vulkan, convert):
    program = mlirfuse.compile(ADD, target=vulkan, cache=False)
    kept = []
    for number in range(3):
        x, y = convert([np.full((512, 512), float(number), np.float32)] * 2)
        kept.append(program(x, y))
        assert type(kept[-1]) is type(x)
    for number, result in enumerate(kept):
        np.testing.assert_array_equal(as_numpy(result), np.full((512, 512), 2.0 * number))


def test_a_device_that_is_not_there(add):
    with pytest.raises(MlirfuseError, match=r"device 'tpu' is not available: .*drivers: .*vulkan"):
        add.on("tpu")


def test_a_program_of_another_target():
    program = mlirfuse.compile(ADD, target="rocm", cache=False)
    with pytest.raises(MlirfuseError, match=r"cannot be loaded on device 'local-task': \w") as info:
        program.on("local-task")
    assert "\n" not in str(info.value)
    assert len(str(info.value)) < 400


def test_compiling_needs_no_device(tmp_path):
    program = mlirfuse.compile(ADD, target="cuda", cache=False)
    program.save(tmp_path / "cuda.vmfb")
    assert mlirfuse.load(tmp_path / "cuda.vmfb").device == "cuda"


THREADS = """
    import os, sys
    import numpy as np, mlirfuse
    program = mlirfuse.load(sys.argv[1], threads=eval(sys.argv[2]))
    x = np.ones((512, 512), np.float32)
    before = len(os.listdir("/proc/self/task"))
    program(x, x)
    print(len(os.listdir("/proc/self/task")) - before, devices_threads := __import__(
        "mlirfuse.runtime.devices", fromlist=["_threads"])._threads)
    try:
        program.on("local-task", threads=7)
    except mlirfuse.UsageError as error:
        print(error)
"""


@pytest.mark.parametrize(
    ("argument", "variable", "chosen"),
    [("1", None, "[1]"), ("None", "1", "[1]"), ("1", "2", "[1]"), ("None", None, "[]")],
)
def test_threads(add, tmp_path, monkeypatch, argument, variable, chosen):
    monkeypatch.delenv(environment_numbers.THREADS_VARIABLE, raising=False)
    if variable:
        monkeypatch.setenv(environment_numbers.THREADS_VARIABLE, variable)
    add.save(tmp_path / "add.vmfb")
    command = [sys.executable, "-c", textwrap.dedent(THREADS), tmp_path / "add.vmfb", argument]
    first, second = subprocess.run(
        command, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert first.endswith(chosen)
    assert second.startswith("threads=7 comes too late: this process runs ")
    assert second.endswith("set MLIRFUSE_THREADS=7 before it starts")


@pytest.mark.parametrize("text", ["two", "0", "-1"])
def test_a_bad_number_of_threads(monkeypatch, text):
    monkeypatch.setenv(environment_numbers.THREADS_VARIABLE, text)
    with pytest.raises(UsageError, match=rf"MLIRFUSE_THREADS: '{text}' is not a number of threads"):
        devices._choose_threads(None, running=False)


@pytest.mark.parametrize(("text", "chosen"), [(None, str(devices.SPIN_US)), ("0", "0")])
def test_microseconds_before_a_thread_sleeps(add, tmp_path, monkeypatch, text, chosen):
    monkeypatch.delenv(devices.SPIN_VARIABLE, raising=False)
    monkeypatch.delenv(environment_numbers.THREADS_VARIABLE, raising=False)
    if text:
        monkeypatch.setenv(devices.SPIN_VARIABLE, text)
    add.save(tmp_path / "add.vmfb")
    code = """
    import sys
    import iree.runtime as rt, mlirfuse, numpy as np
    real = rt.flags.parse_flags
    rt.flags.parse_flags = lambda *flags: (print(*flags), real(*flags))
    x = np.ones((512, 512), np.float32)
    mlirfuse.load(sys.argv[1])(x, x)
    """
    command = [sys.executable, "-c", textwrap.dedent(code), tmp_path / "add.vmfb"]
    made = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert made.splitlines() == [f"--task_worker_spin_us={chosen}"]


def test_a_bad_number_of_microseconds(monkeypatch):
    monkeypatch.setenv(devices.SPIN_VARIABLE, "soon")
    with pytest.raises(UsageError, match="MLIRFUSE_SPIN_US: 'soon' is not a number of microsec"):
        environment_numbers.number(devices.SPIN_VARIABLE, "a number of microseconds", least=0)


def test_calls_from_many_threads(add):
    wrong = []

    def work(number):
        x = np.full((512, 512), float(number), np.float32)
        for _ in range(20):
            if not (add(x, x) == 2.0 * number).all():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


# --- files ---------------------------------------------------------------------------------------


def test_a_saved_program_is_the_same(add, tmp_path):
    path = tmp_path / "add.vmfb"
    add.save(path)
    loaded = mlirfuse.load(path)
    x = np.ones((512, 512), np.float32)
    np.testing.assert_array_equal(loaded(x, x), x + x)
    assert json.dumps(loaded.report.to_dict()) == json.dumps(add.report.to_dict())
    assert loaded.explain() == add.explain()
    assert (loaded.inputs, loaded.outputs) == (add.inputs, add.outputs)
    assert repr(loaded) == repr(add)
    before = path.read_bytes()
    loaded.save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_saved_program_runs_with_iree_runtime_alone(add, tmp_path):
    add.save(tmp_path / "add.vmfb")
    x = np.ones((512, 512), np.float32)
    loaded = iree.runtime.load_vm_flatbuffer_file(str(tmp_path / "add.vmfb"), driver="local-task")
    np.testing.assert_array_equal(loaded.main(x, x).to_host(), x + x)
    np.save(tmp_path / "x.npy", x)
    run_tool(
        "iree-run-module",
        [
            f"--module={tmp_path / 'add.vmfb'}",
            *("--device=local-task", "--function=main"),
            *[f"--input=@{tmp_path / 'x.npy'}"] * 2,
            f"--output=@{tmp_path / 'y.npy'}",
        ],
        stage="run",
    )
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), x + x)
    assert find_tool("iree-dump-module")
    run_tool("iree-dump-module", [str(tmp_path / "add.vmfb")], stage="run")


def test_the_same_program_is_the_same_file(add, tmp_path):
    add.save(tmp_path / "a")
    add.save(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_path_that_cannot_be_written(add, tmp_path):
    with pytest.raises(UsageError, match=r"cannot write .*: No such file or directory"):
        add.save(tmp_path / "missing" / "add.vmfb")


def test_another_function_of_the_program(tmp_path):
    text = """
    func.func @twice(%x: tensor<4xf32>) -> tensor<4xf32> {
      %y = arith.addf %x, %x : tensor<4xf32>
      return %y : tensor<4xf32>
    }
    func.func @square(%x: tensor<4xi32>) -> tensor<4xi32> {
      %y = arith.muli %x, %x : tensor<4xi32>
      return %y : tensor<4xi32>
    }"""
    path = tmp_path / "two.vmfb"
    mlirfuse.compile(text, function="twice", cache=False).save(path)
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(mlirfuse.load(path)(x), x + x)
    square = mlirfuse.load(path, function="square")
    n = np.arange(4, dtype=np.int32)
    np.testing.assert_array_equal(square(n), n * n)
    with pytest.raises(CallError, match="is 4xf32; expected 4xi32"):
        square(x)
    with pytest.raises(UsageError, match=r"no function 'squares'; did you mean 'square'\?"):
        mlirfuse.load(path, function="squares")


def test_a_program_of_iree_compile(many, tmp_path):
    (tmp_path / "bare.vmfb").write_bytes(many._image.data)
    loaded = mlirfuse.load(tmp_path / "bare.vmfb")
    assert [str(s) for s in loaded.inputs] == [str(s) for s in many.inputs]
    assert [str(s) for s in loaded.outputs] == [str(s) for s in many.outputs]
    check(loaded(*inputs()), inputs())


def load_error(path):
    with pytest.raises(MlirfuseError) as caught:
        mlirfuse.load(path)
    assert "\n" not in str(caught.value)
    return str(caught.value).replace(str(path), "FILE")


def test_files_that_are_no_program(add, tmp_path):
    path = tmp_path / "file.vmfb"
    assert load_error(path) == "cannot read FILE: No such file or directory"
    assert load_error(tmp_path).startswith("cannot read FILE: ")
    path.write_bytes(b"")
    assert load_error(path) == "FILE is empty; expected a program, a .vmfb file"
    path.write_bytes(b"no program, but longer than a header" * 10)
    assert load_error(path).startswith("FILE is no program for iree-runtime: ")
    add.save(path)
    path.write_bytes(path.read_bytes()[:200])
    assert load_error(path).startswith("FILE is no program for iree-runtime: ")


def test_damaged_manifests(add, tmp_path):
    path = tmp_path / "file.vmfb"
    for text, message in (
        ("{", "FILE: its manifest is damaged; compile the model again"),
        ('{"schema": 1}', "FILE: its manifest is damaged; compile the model again"),
        ('{"schema": 99}', "FILE: manifest has schema 99; this mlirfuse reads 1"),
    ):
        path.write_bytes(add._image.data)
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr(manifest.MEMBER, text)
        assert load_error(path) == message
    add.save(path)
    data = bytearray(path.read_bytes())
    at = data.rindex(manifest.MEMBER.encode(), 0, data.rindex(manifest.MEMBER.encode()))
    data[at + 40] ^= 255
    path.write_bytes(data)
    assert load_error(path) == "FILE: its manifest is damaged; compile the model again"


# --- the shape of results ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "tree",
    [
        lambda a, b, c: {"y": a, "z": (b, [c, None])},
        lambda a, b, c: (c, b, a),
        lambda a, b, c: [a, {"k": (b,)}, {"flag": True, "name": "n", "c": c}],
    ],
)
def test_the_structure_of_results_survives_as_json(tree):
    described = json.loads(json.dumps(pytree.describe(lambda r: tree(*r), 3)))
    assert pytree.restore(described, [1, 2, 3]) == tree(1, 2, 3)


def test_results_without_a_structure():
    assert pytree.restore(pytree.describe(None, 1), ["a"]) == "a"
    assert pytree.restore(pytree.describe(None, 2), ["a", "b"]) == ("a", "b")
    assert pytree.restore(None, ["a"]) == "a"
    assert pytree.restore(None, ["a", "b"]) == ("a", "b")


def test_a_structure_that_cannot_be_written_down():
    assert pytree.describe(lambda r: {1: r[0]}, 1) is None
    assert pytree.describe(lambda r: object(), 1) is None
    assert pytree.describe(lambda r: r[0] + 1, 1) is None


# --- imports -------------------------------------------------------------------------------------


def test_running_with_numpy_imports_no_framework(add, tmp_path):
    add.save(tmp_path / "add.vmfb")
    script = f"""
        import sys
        import numpy as np, mlirfuse
        x = np.ones((512, 512), np.float32)
        mlirfuse.load({str(tmp_path / "add.vmfb")!r})(x, x)
        print([m for m in ("torch", "jax", "onnx", "triton", "iree.compiler") if m in sys.modules])
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")


@pytest.mark.parametrize(
    ("text", "types"),
    [
        (
            "sync func @main(%input0: tensor<4x?xf32>, %input1: i32) -> (%output0: tensor<index>)",
            (["tensor<4x?xf32>", "i32"], ["tensor<index>"]),
        ),
        (
            "async func @f(%a: tensor<2xcomplex<f32>>) -> (%b: tensor<f8E4M3FN>, %c: f64)",
            (["tensor<2xcomplex<f32>>"], ["tensor<f8E4M3FN>", "f64"]),
        ),
        ("sync func @main() -> ()", ([], [])),
    ],
)
def test_declarations(text, types):
    assert abi.declared_types(text) == types


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("tensor<4x?xf32>", "4x?xf32"),
        ("tensor<index>", "index"),
        ("tensor<2xcomplex<f32>>", "2xcomplex<f32>"),
        ("i32", "i32"),
    ],
)
def test_types(text, spec):
    assert str(abi.tensor_spec(text)) == spec


def test_a_result_that_iree_took_back_is_an_error(add, monkeypatch):
    def fail(*_):
        raise RuntimeError("Could not map memory: transient buffer has not been committed")

    for module_that_maps in (exchange, prepared_call):
        monkeypatch.setattr(module_that_maps, "mapped", fail)
    x = np.ones((512, 512), np.float32)
    with pytest.raises(MlirfuseError, match="the call failed: Could not map memory"):
        add(x, x)
