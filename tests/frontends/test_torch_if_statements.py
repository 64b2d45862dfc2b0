"""`if` statements whose condition is the value of a tensor: both branches, and a choice."""

import gc

import pytest

torch = pytest.importorskip("torch")

import mlirfuse  # noqa: E402
from mlirfuse.core import ImportFailedError  # noqa: E402

X = torch.linspace(-2, 3, 12).reshape(3, 4)


class Clamped(torch.nn.Module):
    """Two layers that clamp values, as those of BART do in half precision."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(4, 4) for _ in range(2)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
            if x.dtype == torch.float32 and not (x.abs() < 1).all():
                top = 0.5
                x = torch.clamp(x, -top, top)
        return x


def early_return(x):
    if (x > 1).any():
        scale = 2.0
        return x * scale, x.sum()
    y = x + 1
    return y, y.mean()


def refused_value(x):
    if x.isnan().any():
        raise ValueError("NaN")
    assert (x < 100).all()
    return x.sqrt()


def chosen(x):
    return (x * 2 if x.sum() > 0 else x - 1) + 1


def nested(x):
    y = x * 2
    if x.mean() > 0:
        if (x > 10).any():
            z = x * 3
            y = z + 0
        else:
            y = y + 1
    elif x.min().item() < -50:
        y = x / 2
    return y


def either(x):
    if (x > 1e3).any() or bool((x < -1e3).any()):
        x = x / 1e3
    return x


@pytest.mark.parametrize("function", [early_return, chosen, nested, either])
def test_each_branch_is_chosen(function):
    program = mlirfuse.compile(function, (X,))
    for scale in (1, -1, 0.1, 1e4, -1e4):
        x = X * scale + 0.01
        torch.testing.assert_close(program(x), function(x))


def test_a_model_with_a_condition_in_each_layer():
    model = Clamped().eval()
    program = mlirfuse.compile(model, (X,))
    with torch.no_grad():
        for scale in (0.01, 10):
            torch.testing.assert_close(program(X * scale), model(X * scale))


def test_the_model_keeps_its_code():
    code = Clamped.forward.__code__
    mlirfuse.compile(Clamped().eval(), (X,))
    assert Clamped.forward.__code__ is code


def test_the_log_has_each_place(caplog):
    def function(x):
        if (x > 0).any():
            x = x + 1
        return x

    with caplog.at_level("INFO", logger="mlirfuse"):
        mlirfuse.compile(function, (X,))
    line = function.__code__.co_firstlineno + 1
    assert f"{__file__}:{line}: a tensor decides" in caplog.text


def test_errors_for_values_are_left_out():
    program = mlirfuse.compile(refused_value, (X.abs(),))
    assert program(X * torch.nan).isnan().all()


def test_a_branch_with_an_effect_is_refused():
    seen = []

    def function(x):
        if x.sum() > 0:
            seen.append(1)
        return x + 1

    with pytest.raises(
        ImportFailedError,
        match=r"test_torch_if_statements.py:\d+: torch.export cannot export it: the program",
    ):
        mlirfuse.compile(function, (X,))


def test_branches_of_other_shapes_are_refused():
    def function(x):
        if x.sum() > 0:
            x = x.to(torch.int32)
        return x + 1

    with pytest.raises(ImportFailedError, match="'x' differs in more than values: int32"):
        mlirfuse.compile(function, (X,))


def test_functions_that_are_frozen_have_the_other_form():
    model = Clamped().eval()
    gc.freeze()
    try:
        program = mlirfuse.compile(model, (X,))
    finally:
        gc.unfreeze()
    torch.testing.assert_close(program(X * 9), model(X * 9))
