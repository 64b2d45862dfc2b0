"""A function as a module of PyTorch."""

import pytest

torch = pytest.importorskip("torch")


class Program(torch.nn.Module):
    """Calls a function of tensors."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *arguments):
        """The result of the function."""
        return self.function(*arguments)
