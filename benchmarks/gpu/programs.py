"""The programs: what each computes in torch, and its inputs. Used to compile and to measure."""

import torch
import torch.nn.functional as F


def rms(x, g):
    y = x.float()
    return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * g


def softmax(x):
    return torch.softmax(x, -1)


def masked_softmax(x, m):
    return torch.softmax(x * 0.125 + m, -1)


def layer_norm(x, g, b):
    return F.layer_norm(x, g.shape, g, b)


def add_rms_norm(x, r, g):
    s = x + r
    return rms(s, g), s


def linear_gelu(a, w, b):
    return F.gelu(F.linear(a, w, b), approximate="tanh")


def linear_gelu_residual(a, w, b, r):
    return F.gelu(F.linear(a, w, b)) + r


def matmul_bias(a, w, b):
    return a @ w + b


def batched(a, b):
    return torch.tanh(torch.bmm(a, b.transpose(1, 2)) * 0.125)


def attention(q, k, v):
    return F.scaled_dot_product_attention(q, k, v)


def attention_causal(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def attention_gqa(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def attention_mask(q, k, v, m):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=m)


def linear(m, n, k, residual=False):
    return [(m, k), (n, k), (n,)] + ([(m, n)] if residual else [])


H = "float16"
B = "bfloat16"
PROGRAMS = {
    # name: function, shapes, dtype, timed
    "softmax_16384x4096": (softmax, [(16384, 4096)], H, True),
    "softmax_16384x1024": (softmax, [(16384, 1024)], H, True),
    "softmax_2048x32768": (softmax, [(2048, 32768)], H, True),
    "softmax_37x1001": (softmax, [(37, 1001)], H, False),
    "masked_softmax": (masked_softmax, [(8, 16, 512, 512), (8, 1, 512, 512)], H, True),
    "rms_norm_16384x4096": (rms, [(16384, 4096), (4096,)], H, True),
    "add_rms_norm_16384x4096": (add_rms_norm, [(16384, 4096)] * 2 + [(4096,)], H, True),
    "add_rms_norm_16384x8192": (add_rms_norm, [(16384, 8192)] * 2 + [(8192,)], H, True),
    "add_rms_norm_bf16": (add_rms_norm, [(16384, 4096)] * 2 + [(4096,)], B, True),
    "add_rms_norm_5x333": (add_rms_norm, [(5, 333)] * 2 + [(333,)], H, False),
    "layer_norm_16384x4096": (layer_norm, [(16384, 4096), (4096,), (4096,)], H, True),
    "layer_norm_7x769": (layer_norm, [(7, 769), (769,), (769,)], H, False),
    "linear_gelu_4096": (linear_gelu, linear(4096, 4096, 4096), H, True),
    "linear_gelu_4096_bf16": (linear_gelu, linear(4096, 4096, 4096), B, True),
    "linear_gelu_res_8192x3072x768": (linear_gelu_residual, linear(8192, 3072, 768, True), H, True),
    "linear_gelu_res_123x457x789": (linear_gelu_residual, linear(123, 457, 789, True), H, False),
    "matmul_bias_4096": (matmul_bias, [(4096, 4096), (4096, 4096), (4096,)], H, True),
    "matmul_bias_16x4096x4096": (matmul_bias, [(16, 4096), (4096, 4096), (4096,)], H, True),
    "batched_64x512x512x64": (batched, [(64, 512, 64), (64, 512, 64)], H, True),
    "attention_8x16x1024x64": (attention, [(8, 16, 1024, 64)] * 3, H, True),
    "attention_causal_1x32x4096x128": (attention_causal, [(1, 32, 4096, 128)] * 3, H, True),
    "attention_gqa_2x32x1024x128": (
        attention_gqa,
        [(2, 32, 1024, 128), (2, 8, 1024, 128), (2, 8, 1024, 128)],
        H,
        True,
    ),
    "attention_mask_3x5x77x64": (attention_mask, [(3, 5, 77, 64)] * 3 + [(3, 1, 77, 77)], H, False),
}
