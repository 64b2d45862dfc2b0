"""A softmax of long rows is one kernel on a CPU with the ops behind it."""

import pytest
import torch

import mlirfuse

EPILOGUES = {
    "softmax": lambda x, y: torch.softmax(x, -1) * y,
    "log softmax": lambda x, y: torch.relu(torch.log_softmax(x, -1) + y),
    "divergence": lambda x, y: torch.nn.functional.kl_div(
        torch.log_softmax(x, -1), torch.softmax(y, -1), reduction="none"
    ),
}


@pytest.mark.parametrize("target", ["cpu:host", "cpu:x86-64-v3"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", EPILOGUES)
def test_one_kernel(name, dtype, target):
    """The rows are whole vectors, and more than IREE's tiles keep the exponentials of."""
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(37, 4096, generator=generator).to(dtype) for _ in range(2))
    model = EPILOGUES[name]
    program = mlirfuse.compile(model, (x, y), target=target, cache=False)
    assert not [d for d in program.report.decisions if "FELL_BACK" in str(d.reason)]
    assert {kernel.code for kernel in program.kernels} == {"row_vector_kernel"}
    assert len(program.kernels) <= 1 + (name == "divergence")
    limit = 1e-5 if dtype == torch.float32 else 3e-2
    right = model(x.double(), y.double())
    torch.testing.assert_close(program(x, y).double(), right, rtol=limit, atol=limit)
