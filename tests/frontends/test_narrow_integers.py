"""Numbers outside the range of narrow integers keep their low bits, as in PyTorch."""

import torch
from iree.compiler import ir

import mlirfuse
from mlirfuse.frontends import import_model

CONVERSIONS = (torch.Tensor.byte, torch.Tensor.char, torch.Tensor.short)


def test_low_bits_are_kept():
    x = torch.tensor([210.0, -3, 300, -129, 40000, 127, 1.5, -1.5, 0, 255, 256, -200] * 7)
    arguments = (x, x.half(), x.bfloat16())

    def model(*arguments):
        return [convert(x) for x in arguments for convert in CONVERSIONS]

    results = mlirfuse.compile(model, arguments, target="cpu")(*arguments)
    for ours, theirs in zip(results, model(*arguments), strict=True):
        assert ours.dtype == theirs.dtype
        assert torch.equal(ours, theirs)


def test_clamped_numbers_are_converted_at_once():
    """Passes know a quantization by its direct conversion."""

    def model(x):
        rounded = torch.round(x)
        return (
            torch.clamp(rounded, -128, 127).to(torch.int8),
            torch.relu(torch.minimum(rounded, torch.tensor(127.0))).to(torch.int8),
            torch.clamp(rounded, -128, 128).to(torch.int8),
        )

    imported = import_model(model, (torch.ones(4),))
    with ir.Context():
        text = str(ir.Module.parse(imported.path.read_bytes()))
    assert text.count("arith.fptosi") == 3
    assert text.count("f32 to i8") == 2
    assert text.count("arith.trunci") == 1
