"""Slices of the last layer: only their rows are computed, and they are those of the whole."""

import pytest
import torch
from torch import nn

import mlirfuse
from helpers.spread import some

PASS = "demanded_part_rewrite"

PICKS = {
    "first": lambda h: h[:, 0],
    "last": lambda h: h[:, -1],
    "every fourth": lambda h: h[:, ::4],
    "one": lambda h: h[1:2, 3],
    "several": lambda h: h[:, 5:9],
    "of one sample": lambda h: h[2, 5:9],
}


class Classifier(nn.Module):
    """Layers of a transformer, some tokens of which are classified."""

    def __init__(self, pick, norm_first):
        super().__init__()
        kinds = {"batch_first": True, "dropout": 0.0, "activation": "gelu"}
        self.layers = nn.Sequential(
            *(
                nn.TransformerEncoderLayer(32, 4, 64, norm_first=norm_first, **kinds)
                for _ in range(2)
            )
        )
        self.head = nn.Linear(32, 10)
        self.pick = pick

    def forward(self, x):
        return self.head(self.pick(self.layers(x)))


def compiled(model, inputs, **options):
    return mlirfuse.compile(
        model, inputs, target="cpu", cache=False, disable_feature=("fallback",), **options
    )


@pytest.mark.parametrize(
    ("pick", "norm_first"),
    some(PICKS, (False, True), often=lambda pick, first: list(PICKS).index(pick) % 2 == first),
)
def test_tokens_of_the_last_layer(pick, norm_first):
    torch.manual_seed(0)
    model, x = Classifier(PICKS[pick], norm_first).eval(), torch.randn(4, 16, 32)
    found = torch.as_tensor(compiled(model, (x,))(x))
    assert torch.allclose(found, model(x), atol=1e-5)


def rows(program, columns):
    """Rows of the results with so many columns."""
    found = [o.shape for k in program.kernels for o in k.operands if o.is_result]
    return [shape[0] for shape in found if len(shape) == 2 and shape[1] == columns]


def test_only_the_rows_of_the_slice_are_computed():
    torch.manual_seed(0)
    model, x = Classifier(PICKS["first"], norm_first=False).eval(), torch.randn(4, 16, 32)
    assert sorted(rows(compiled(model, (x,)), 64)) == [4, 64]
    assert sorted(rows(compiled(model, (x,), disable_pass=(PASS,)), 64)) == [64, 64]


class Masked(nn.Module):
    """Attention of one query whose mask may leave it no key."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(32, 32) for _ in range(3))

    def forward(self, x, mask):
        q, k, v = (f(x).view(1, 16, 4, 8).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return y.transpose(1, 2).reshape(1, 16, 32)[:, 0]


@pytest.mark.parametrize("open_keys", [16, 3, 0])
def test_attention_of_one_query_with_a_mask(open_keys):
    torch.manual_seed(1)
    model, x = Masked().eval(), torch.randn(1, 16, 32)
    mask = (torch.arange(16) < open_keys).expand(1, 1, 16, 16).contiguous()
    found = torch.as_tensor(compiled(model, (x, mask))(x, mask))
    assert torch.allclose(found, model(x, mask), atol=1e-5, equal_nan=True)


class Products(nn.Module):
    """Products of all pairs of rows, of which the first row is taken: both operands are one."""

    def forward(self, x):
        return torch.matmul(x, x.mT)[:, 0]


def test_one_tensor_that_is_read_in_two_parts():
    torch.manual_seed(2)
    model, x = Products(), torch.randn(3, 16, 32)
    program = compiled(model, (x,))
    assert program.report.counts().get(PASS) == 1
    assert torch.allclose(torch.as_tensor(program(x)), model(x), atol=1e-5)
