"""Ops that IREE compiles wrong for CUDA: the other form computes the same, and has no such op."""

import re

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from iree.compiler import ir
from jax import lax
from torch.nn import functional as F

from mlirfuse.backend.compiler import Compiler
from mlirfuse.builders import codegen_repairs
from mlirfuse.compilation import open_model, resolved
from mlirfuse.frontends import torch_decompositions
from mlirfuse.kernels import triton_compiler
from mlirfuse.runtime import isolated
from mlirfuse.runtime.arrays import numpy_of
from mlirfuse.runtime.isolated import Signature
from mlirfuse.targets import parse

CUDA = parse("cuda:sm_90")


def repaired(model, arguments, tmp_path, *flags):
    """The text of the repaired module, and its results on the CPU."""
    with open_model(model, arguments, target="cpu", options=resolved(None, {})) as work:
        normalized = tmp_path / "normalized.mlirbc"
        work.compiler._run(
            "global-optimization",
            work.imported.path,
            normalized,
            "--compile-to=global-optimization",
            "--emit-mlir-bytecode",
            *work.compiler.flags(fused=False),
            *flags,
        )
        imported = work.imported
    with ir.Context():
        module = ir.Module.parseFile(str(normalized))
        assert codegen_repairs.repair_grouped(module, CUDA, exact=False)
        repeated = codegen_repairs.repair_grouped(module, CUDA, exact=False)
        assert not repeated, "a repair that repeats"
        module.operation.verify()
        text = str(module)
        rewritten = tmp_path / "repaired.mlir"
        rewritten.write_text(text)
    program = tmp_path / "program.vmfb"
    Compiler(parse("cpu"), resolved(None, {})).generate(rewritten, program, fused=False)
    signature = Signature(imported.function, imported.inputs, imported.outputs)
    given = [numpy_of(value) for value in arguments]
    return text, isolated.call(program, given, signature=signature, device="local-sync").results


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16])
def test_signed_extrema(dtype, tmp_path):
    def model(x):
        return x.amin(-1), (-x).amax(-1), x.amin(), x.amax(0), (x * 2).amin(1)

    x = torch.randint(1, 100, (5, 64), dtype=dtype)
    x[0, 0] = torch.iinfo(dtype).max
    text, results = repaired(model, (x,), tmp_path)
    assert "arith.minsi" not in text
    assert "arith.maxsi" not in text
    for got, expected in zip(results, model(x), strict=True):
        np.testing.assert_array_equal(got, expected.numpy())


def test_sums_in_a_wider_type(tmp_path):
    def model(x):
        return x.sum(-1), x.sum(), x.sum(0)

    x = torch.randint(-100, 100, (5, 64), dtype=torch.int32)
    text, results = repaired(model, (x,), tmp_path)
    # The extension is in a dispatch of its own, which the reduction cannot join.
    assert text.count("flow.dispatch.region") == 3
    for got, expected in zip(results, model(x), strict=True):
        np.testing.assert_array_equal(got, expected.numpy())


def test_images_with_channels_first(tmp_path):
    """A transposed convolution of such an image, with the flags of programs with kernels."""

    def model(x, w, b):
        return F.conv_transpose2d(x, w, b, stride=2, padding=1, output_padding=1)

    arguments = [torch.randn(s).half() for s in ((2, 8, 6, 10), (8, 12, 3, 3), (12,))]
    text, results = repaired(model, arguments, tmp_path, *triton_compiler.CHANNELS_LAST)
    assert "tensor<2x14x22x8xf16>" in text, "the image has its channels last"
    expected = model(*(value.float() for value in arguments))
    np.testing.assert_allclose(results[0].astype(np.float32), expected, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("dims", [1, 2])
def test_dilated_taps(dims, tmp_path):
    """A grouped transposed convolution; several channels of a group share its dilated taps."""
    convolution = F.conv_transpose1d if dims == 1 else F.conv_transpose2d

    def model(x, w, b):
        return convolution(x, w, b, stride=3, padding=1, output_padding=2, groups=2, dilation=4)

    shapes = ((2, 4, *[5] * dims), (4, 3, *[4] * dims), (6,))
    arguments = [torch.randn(s).half() for s in shapes]
    text, results = repaired(model, arguments, tmp_path)
    assert "* 4" in text
    assert not re.search(r"linalg.generic[^\n]*\* 4[^\n]*reduction", text)
    np.testing.assert_allclose(results[0], model(*arguments).numpy(), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("k", [18, 32])
def test_contractions_padded_along_k(k, tmp_path):
    """The rows of the second factor are not along K."""

    def model(a, b, w):
        return a @ b, a @ w.mT, (a @ b).sum(), a.amax()

    a, b, w = (torch.randn(s).half() for s in ((3, 5, k), (3, k, 8), (3, 8, k)))
    if k == 32:
        with pytest.raises(AssertionError, match="repair_grouped"):
            repaired(model, (a, b, w), tmp_path)
        return
    text, results = repaired(model, (a, b, w), tmp_path)
    assert text.count("flow.dispatch.region") == 1
    assert "tensor<3x8x18xf16>" in text.split("flow.dispatch.region")[1]
    for got, expected in zip(results[:2], model(a, b, w)[:2], strict=True):
        np.testing.assert_allclose(got, expected.numpy(), rtol=1e-2, atol=1e-2)


def test_a_gather_of_a_gather(tmp_path):
    """The first one has wider elements than indices, and assertions that are not composed."""

    def model(x, table, columns):
        index = torch.gather(table, 1, x.to(torch.int64))
        return index.index_select(1, columns)

    x = torch.randint(0, 6, (5, 4)).float()
    table, columns = torch.arange(30).view(5, 6) * 10, torch.tensor([3, 0, 1])
    text, results = repaired(model, (x, table, columns), tmp_path)
    assert text.count("flow.dispatch.region") == 1
    assert text.index("cf.assert") < text.index("flow.return") < text.rindex("tensor.extract ")
    np.testing.assert_array_equal(results[0], model(x, table, columns).numpy())


def test_results_with_fewer_dimensions(tmp_path, monkeypatch):
    """IREE's import of adaptive pooling: sums of windows, and the sizes of the windows."""
    ours = torch_decompositions._table()
    monkeypatch.delitem(ours, torch.ops.aten._adaptive_avg_pool3d.default)

    def model(x):
        return torch.ops.aten._adaptive_avg_pool3d(x, (2, 2, 2))

    x = torch.randn(2, 3, 4, 4, 4)
    text, results = repaired(model, (x,), tmp_path)
    assert ":2 = linalg.generic" not in text
    np.testing.assert_allclose(results[0], model(x).numpy(), rtol=1e-5, atol=1e-6)


SUMS = """
#v = affine_map<(i) -> (i)>
#s = affine_map<(i) -> ()>
util.func public @main(%x: tensor<3xf32>, %y: tensor<3xf32>) -> (tensor<f32>, tensor<f32>) {
  %zero = arith.constant 0.0 : f32
  %r:2 = flow.dispatch.region -> (tensor<f32>, tensor<f32>) {
    %e = tensor.empty() : tensor<f32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<f32>) -> tensor<f32>
    %a = linalg.generic {indexing_maps = [#v, #s], iterator_types = ["reduction"]}
        ins(%x : tensor<3xf32>) outs(%f : tensor<f32>) {
    ^bb0(%in: f32, %out: f32):
      %p = arith.addf %in, %out : f32
      linalg.yield %p : f32
    } -> tensor<f32>
    %b = linalg.generic {indexing_maps = [#v, #s], iterator_types = ["reduction"]}
        ins(%y : tensor<3xf32>) outs(%f : tensor<f32>) {
    ^bb0(%in: f32, %out: f32):
      %p = arith.addf %in, %out : f32
      linalg.yield %p : f32
    } -> tensor<f32>
    flow.return %a, RETURNED : tensor<f32>, tensor<f32>
  }
  util.return %r#0, %r#1 : tensor<f32>, tensor<f32>
}
"""


@pytest.mark.parametrize(("returned", "undone"), [("%b", True), ("%e", False)])
def test_two_reductions_to_scalars(returned, undone):
    with ir.Context():
        module = ir.Module.parse(SUMS.replace("RETURNED", returned))
        assert codegen_repairs.repair_grouped(module, CUDA, exact=False) == undone
        module.operation.verify()
        assert ("flow.dispatch.region" not in str(module)) == undone


def test_targets_that_are_repaired():
    for target in ("cuda:sm_90", "cpu:sapphirerapids", "vulkan:ampere"):
        assert codegen_repairs.needed(parse(target))
    for target in ("vulkan:rdna3", "rocm:gfx942"):
        assert not codegen_repairs.needed(parse(target))


def test_extended_elements_that_a_scatter_or_a_sort_reads(tmp_path):
    """Of a wider type than what they are made from: their op is not copied into the dispatch."""

    def model(x, i):
        return jnp.zeros(5, jnp.float32).at[i].add(1), *lax.top_k(x, 3)

    x = np.array([3, 200, 7, 200, 0, 9], np.uint8)
    i = np.array([0, 4, 0, 2, 2, 0], np.uint8)
    text, results = repaired(model, (x, i), tmp_path)
    formed = dict(re.findall(r"(%\w+) = flow.dispatch.region .*?(arith.\w+ %in)", text, re.DOTALL))
    read = re.findall(r"iree_linalg_ext.(scatter|topk) .* ins\((%\w+)", text)
    assert sorted(name for name, _ in read) == ["scatter", "topk"]
    assert all(value in formed for _, value in read), text
    for got, expected in zip(results, model(jnp.asarray(x), jnp.asarray(i)), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_a_slice_that_a_sort_writes_into(tmp_path):
    """The sort has a copy: the slice in its dispatch is read-only memory of the whole."""
    x = np.random.default_rng(0).standard_normal((2, 9)).astype(np.float32)
    text, results = repaired(lambda x: (jnp.sort(x[0]), x + 1), (x,), tmp_path)
    (sorted_value,) = re.findall(r"iree_linalg_ext.sort .* outs\((%\w+)", text)
    assert f"{sorted_value} = flow.dispatch.region" in text, text
    np.testing.assert_array_equal(results[0], np.sort(x[0]))
    np.testing.assert_array_equal(results[1], x + 1)


def test_complex_results_of_a_reduction(tmp_path):
    x = np.array([[1 + 2j, 1 + 3j, -4], [0, -1j, -2]], np.complex64)
    text, results = repaired(lambda x: jnp.max(x, axis=1), (x,), tmp_path)
    region = text.partition("flow.dispatch.region")[2].partition("flow.return")[0]
    assert "complex.create" in region
    np.testing.assert_array_equal(results[0], np.array([1 + 3j, 0], np.complex64))


def test_elementwise_complex_results_stay_with_their_producers(tmp_path):
    x = np.array([1 + 2j, 1 + 3j, -4], np.complex64)
    with pytest.raises(AssertionError, match="repair"):
        repaired(lambda x: x * x + 1, (x,), tmp_path)


def test_angles_are_reduced_after_the_passes():
    text = """
    func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
      %y = linalg.map { math.cos } ins(%x : tensor<8xf32>) outs(%x : tensor<8xf32>)
      return %y : tensor<8xf32>
    }
    """
    for target, reduced in (("cuda:sm_90", True), ("rocm:gfx942", False)):
        with ir.Context():
            module = ir.Module.parse(text)
            assert codegen_repairs.repair_grouped(module, parse(target), exact=False) == reduced
            assert ("math.roundeven" in str(module)) == reduced


def test_elements_of_slices(tmp_path):
    """Rows of a slice, in an order, as columns: the whole tensor is read."""

    def model(x, i):
        return x[1:4, 2:7][i].T, x[::2, 3][i], x[1:][2, 1:][jnp.newaxis, i]

    x = np.arange(48, dtype=np.float32).reshape(6, 8)
    i = np.array([2, 0, 1], np.int32)
    text, results = repaired(model, (x, i), tmp_path)
    extracted = re.findall(r"tensor.extract (%\w+)", text)
    assert extracted
    assert not any(re.search(rf"{name} = tensor.extract_slice", text) for name in extracted)
    for got, expected in zip(results, model(jnp.asarray(x), i), strict=True):
        np.testing.assert_array_equal(got, expected)
