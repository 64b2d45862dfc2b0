"""The suites of PyTorch's operators and modules: which samples and results they take."""

import torch

from benchmarks.conformance.torch_modules import TorchModules
from benchmarks.conformance.torch_ops import TorchOps


def test_samples_that_pytorch_does_not_define_are_left_out():
    """Random dropout; casts of NaN to integers; polynomials of NaN."""
    suite = TorchOps(types=[torch.float32])
    heads = [case.name for case in suite.cases("nn.functional.multi_head_attention_forward")]
    assert heads
    assert not any(name.endswith("/5") for name in heads)
    for group in ("byte", "special.legendre_polynomial_p"):
        first = next(c.arguments[0] for c in suite.cases(group) if c.name.endswith("/extremes"))
        assert not first.isnan().any()
        assert (first == 0).any()


def test_positions_of_halves_are_expected_in_float32():
    case = TorchOps(types=[torch.bfloat16]).cases("grid_sampler_2d")[0]
    wide = case.call(*(x.float() for x in case.arguments))[0]
    assert torch.equal(case.expected[0], wide.bfloat16())


def test_the_error_of_a_fourier_transform_is_relative_to_its_largest_element():
    cases = TorchOps(types=[torch.uint8]).cases("fft.fft2")
    largest = max(case.expected[0].abs().max().item() for case in cases)
    assert 1e-5 < max(case.atol for case in cases) < 1e-6 * largest


def test_modules_are_called_in_both_modes_where_these_differ():
    cases = {case.name: case for case in TorchModules({torch.float32: 2}).cases("BatchNorm2d")}
    evaluated, trained = cases["BatchNorm2d/float32/0"], cases["BatchNorm2d/float32/training-0"]
    assert len(evaluated.expected) == 1
    # The running mean and variance and the number of calls are results, and no call changes them.
    assert [t.dtype for t in trained.expected[1:]] == [torch.float32, torch.float32, torch.int64]
    assert trained.expected[3] == trained.call.copied()(*trained.arguments)[3] == 1
    assert "BatchNorm2d/float32/further-0" in cases


def test_padded_places_of_an_encoder_are_those_of_the_exported_form():
    cases = {
        case.name: case for case in TorchModules({torch.float32: 4}).cases("TransformerEncoder")
    }
    padded = cases["TransformerEncoder/float32/further-1"].expected[0][1, 3:]
    assert padded.all()
