import types

import ml_dtypes
import numpy as np
import pytest

import mlirfuse
from mlirfuse.core import CallError, MlirfuseError
from mlirfuse.runtime import exchange, prepared_call
from mlirfuse.runtime.session import Session

PROGRAM = """
func.func @main(%x: tensor<?x16xf32>, %h: tensor<8xbf16>, %n: tensor<3xi32>)
    -> (tensor<?x16xf32>, tensor<?x16xf32>, tensor<8xbf16>, tensor<3xi32>) {
  %twice = arith.addf %x, %x : tensor<?x16xf32>
  %hh = arith.addf %h, %h : tensor<8xbf16>
  %nn = arith.addi %n, %n : tensor<3xi32>
  return %x, %twice, %hh, %nn
      : tensor<?x16xf32>, tensor<?x16xf32>, tensor<8xbf16>, tensor<3xi32>
}
"""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    path = tmp_path_factory.mktemp("program") / "m.vmfb"
    mlirfuse.compile(PROGRAM, target="cpu", cache=False).save(path)
    return path


@pytest.fixture
def program(loaded):
    return mlirfuse.load(loaded, device="local-sync")


@pytest.fixture
def no_other_call(monkeypatch):
    """Forbids calls that are not prepared, once it is called."""

    def refuse(*_):
        raise AssertionError("the call is not prepared")

    return lambda: monkeypatch.setattr(Session, "call", refuse)


def arguments(rows=5):
    x = np.random.default_rng(rows).standard_normal((rows, 16), np.float32)
    return [x, np.arange(8).astype(ml_dtypes.bfloat16), np.array([1, -2, 1 << 20], np.int32)]


def as_torch(values):
    torch = pytest.importorskip("torch")
    x, h, n = values
    h = torch.from_numpy(h.astype(np.float32)).bfloat16()
    return [torch.from_numpy(x).clone(), h, torch.from_numpy(n)]


def as_jax(values):
    jax = pytest.importorskip("jax")
    return [jax.numpy.asarray(value) for value in values]


def as_f64(value):
    value = value.double() if hasattr(value, "double") else value
    return np.asarray(value).astype(np.float64)


def check(results, given):
    for got, want in zip(results, (given[0], *(as_f64(v) * 2 for v in given)), strict=True):
        np.testing.assert_array_equal(as_f64(got), as_f64(want))


@pytest.mark.parametrize("convert", [list, as_torch, as_jax])
def test_a_call_of_the_same_signature_is_prepared(program, convert, no_other_call):
    first = program(*convert(arguments()))
    no_other_call()
    given = convert([2 * v for v in arguments()])
    results = program(*given)
    check(results, given)
    assert [(type(a), a.dtype) for a in results] == [(type(a), a.dtype) for a in first]
    check(first, arguments())
    if convert is not as_jax:
        given[0][...] = 7
        np.testing.assert_array_equal(as_f64(results[0]), 2 * arguments()[0])
        results[1][...] = 7
        np.testing.assert_array_equal(as_f64(results[0]), 2 * arguments()[0])


def transposed(value):
    return (value.t() if hasattr(value, "t") else value.T)[::1]


@pytest.mark.parametrize("convert", [list, as_torch])
def test_arguments_of_another_layout_are_put_in_order(program, convert):
    given = convert(arguments(16))
    check(program(*given), given)
    for change in (transposed, lambda x: x[::2], lambda x: x[1:]):
        other = [change(given[0]), *given[1:]]
        check(program(*other), other)
        check(program(*given), given)
    swapped = arguments()
    swapped[0] = swapped[0].astype(">f4")
    check(program(*swapped), swapped)


@pytest.mark.parametrize("convert", [list, as_torch, as_jax])
def test_memory_that_is_not_aligned(program, convert, no_other_call):
    raw = np.zeros(4 * 80 + 128, np.uint8)
    offset = (4 - raw.ctypes.data) % 64
    given = arguments()
    x = raw[offset : offset + 320].view(np.float32).reshape(5, 16)
    x[...] = given[0]
    converted = convert(given)
    if convert is as_torch:
        import torch

        converted[0] = torch.from_numpy(x)
    elif convert is list:
        converted[0] = x
    program(*converted)
    if convert is not as_jax:
        no_other_call()
    check(program(*converted), converted)


@pytest.mark.parametrize("convert", [list, as_torch, as_jax])
def test_arguments_that_do_not_fit_after_some_that_did(program, convert):
    given = convert(arguments())
    program(*given)
    name = program.source
    other = convert([arguments()[0].astype(np.float16), *arguments()[1:]])[0]
    for wrong, message in (
        ([other, *given[1:]], "argument '0' is 5x16xf16; expected ?x16xf32"),
        ([given[0][:, :3], *given[1:]], "argument '0' is 5x3xf32; expected ?x16xf32"),
        ([*given[:2], "three"], "argument '2' is of type str; expected 3xi32"),
        (given[:2], "number of arguments is 2; expected 3 (?x16xf32, 8xbf16, 3xi32)"),
    ):
        for _ in range(2):
            with pytest.raises(CallError) as caught:
                program(*wrong)
            assert str(caught.value) == f"{name}: {message}"
    mixed = [arguments()[0], *as_torch(arguments())[1:]]
    assert isinstance(program(*mixed)[0], np.ndarray)
    check(program(*given), given)


def test_tensors_on_another_device_are_refused_as_before(program):
    given = as_torch(arguments())
    wrong = [given[0].to("meta"), *given[1:]]
    said = []
    for _ in range(2):
        with pytest.raises(Exception) as caught:  # noqa: PT011
            program(*wrong)
        said.append(repr(caught.value))
        program(*given)
    assert said[0] == said[1]


def test_tensors_with_gradients(program, no_other_call):
    import torch

    given = as_torch(arguments())
    leaf = torch.nn.Parameter(given[0].clone())
    with torch.no_grad():
        program(leaf, *given[1:])
    exchange._warn_of_gradients.cache_clear()
    with pytest.warns(UserWarning, match="an argument requires a gradient"):
        program(leaf, *given[1:])
    no_other_call()
    with torch.no_grad():
        results = program(leaf, *given[1:])
    check([result.detach() for result in results], given)
    assert not any(result.requires_grad for result in results)


@pytest.mark.parametrize(("kind", "shape"), [("f8E4M3FN", "4x"), ("f32", "0x4x")])
def test_tensors_that_dlpack_does_not_take(kind, shape):
    import torch

    tensor = f"tensor<{shape}{kind}>"
    text = f"func.func @main(%x: {tensor}) -> {tensor} {{ return %x : {tensor} }}"
    program = mlirfuse.compile(text, target="cpu", cache=False).on("local-sync")
    x = torch.tensor([1.0, -2.0, 0.0, 448.0]).to(torch.float8_e4m3fn)
    x = x if kind != "f32" else torch.zeros(0, 4)
    for _ in range(3):
        same = program(x)
        assert (same.dtype, same.shape) == (x.dtype, x.shape)
        assert torch.equal(same.float(), x.float())
    assert program._sessions.prepared.latest is None


def test_arrays_of_jax_on_another_device_are_not_prepared():
    on_gpu = types.SimpleNamespace(
        dtype=np.dtype(np.float32),
        shape=(4,),
        devices=lambda: [types.SimpleNamespace(platform="gpu")],
    )
    assert not prepared_call._is_plain(on_gpu, "jax")


def test_a_prepared_call_that_fails(program, monkeypatch):
    given = as_torch(arguments())
    program(*given)

    def invoke(*_):
        raise RuntimeError("INVALID_ARGUMENT; it is Monday")

    monkeypatch.setattr(program._sessions.current, "_invoke", invoke)
    with pytest.raises(MlirfuseError, match="the call failed: INVALID_ARGUMENT; it is Monday"):
        program(*given)


def test_signatures_are_limited(program, monkeypatch):
    monkeypatch.setattr(prepared_call, "MAX_SIGNATURES", 2)
    for rows in (3, 4, 5, 3, 6, 6):
        given = arguments(rows)
        check(program(*given), given)
    assert len(program._sessions.prepared._by_signature) == 2


def test_an_updated_argument_is_the_one_of_its_call():
    """The model's own form has to be flattened for each call, also where it is positional."""
    import torch

    class Model(torch.nn.Module):
        def forward(self, x):
            x.add_(1)
            return 2 * x

    program = mlirfuse.compile(Model(), (torch.zeros(4),), target="cpu", cache=False)
    for _ in range(20):
        x = torch.zeros(4)
        assert program(x).tolist() == [2] * 4
        assert x.tolist() == [1] * 4


def test_containers_and_names_are_prepared(no_other_call):
    import torch

    class Model(torch.nn.Module):
        def forward(self, pair, scale):
            return {"sum": pair[0] + pair[1] * scale}

    x = torch.arange(4.0)
    program = mlirfuse.compile(Model(), ((x, x), x), target="cpu", cache=False)
    for _ in range(20):
        program((x, x), x)
    no_other_call()
    for result in (program((x, 2 * x), x), program((x, 2 * x), scale=x), program(x, 2 * x, x)):
        assert torch.equal(result["sum"], x + 2 * x * x)
