"""The ops of fusion plans one by one, in float64."""

import numpy as np

from mlirfuse.fusion_plan import windows
from mlirfuse.fusion_plan.arguments import DEFAULTS


def activation(mode, x, alpha=1.0, beta=1.0, gamma=1.0):
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        base = alpha + beta * x
        sigmoid = 1 / (1 + np.exp(-x))
        return {
            "pasthru": lambda: x,
            "logistic": lambda: sigmoid,
            "tanh": lambda: beta * np.tanh(alpha * x),
            "relu": lambda: np.maximum(x, 0),
            "softrelu": lambda: np.logaddexp(0, x),
            "abs": lambda: np.abs(x),
            "power": lambda: np.where(base > 0, np.abs(base) ** gamma, 0),
            "clipped_relu": lambda: np.minimum(alpha, np.maximum(x, 0)),
            "leaky_relu": lambda: np.where(x > 0, x, alpha * x),
            "elu": lambda: np.where(x > 0, x, alpha * np.expm1(x)),
            "clamp": lambda: np.clip(x, alpha, beta),
            "silu": lambda: x * sigmoid,
            "gelu": lambda: x * 0.5 * (1 + _erf(x / np.sqrt(2))),
        }[mode]()


def slope(mode, x, **scalars):
    """The derivative, by a central difference."""
    step = 1e-6
    high, low = (activation(mode, x + d, **scalars) for d in (step, -step))
    return (high - low) / (2 * step)


def _erf(x):
    import math

    return np.vectorize(math.erf)(x)


def run(plan, x, values):
    """The output and the further results.

    Args:
      plan: a description.
      x: the input.
      values: index of the op and name -> argument.
    """
    given, results = plan.input, []
    y = x.astype(np.float64)
    for index, (op, derived) in enumerate(zip(plan.ops, plan.derived(), strict=True)):
        own = {
            name: np.asarray(values.get((index, name), DEFAULTS.get(name)), np.float64)
            for name in derived.arguments
        }
        y, more = _OPS[op.kind](op, given, y, own)
        results += more
        given = derived.output
    return [y, *results]


def _channels(given, value):
    if value.ndim != 1:
        return value[None]
    shape = [1] * given.rank
    shape[given.channel_axis] = -1
    return value.reshape(shape)


def _first(given, x):
    return np.moveaxis(x, given.channel_axis, 1) if given.layout else x


def _transposed(op, given, x, own):
    """Each element of the image times the filter, added to the window of the result it reaches."""
    rank = len(given.spatial_axes)
    kernel, stride, padding, dilation, extra = (
        windows.spread(v, rank)
        for v in (op.kernel, op.stride, op.padding, op.dilation, op.output_padding)
    )
    image, w = _first(given, x), _first(given, own["weights"])
    sizes = windows.transposed_windows(given, kernel, stride, padding, dilation, extra)
    whole = [
        (n - 1) * s + d * (k - 1) + 1 + e
        for n, s, d, k, e in zip(image.shape[2:], stride, dilation, kernel, extra, strict=True)
    ]
    y = np.zeros((image.shape[0], op.filters, *whole))
    part, outs = image.shape[1] // op.groups, op.filters // op.groups
    for tap in np.ndindex(*kernel):
        at = tuple(
            slice(t * d, t * d + s * (n - 1) + 1, s)
            for t, d, s, n in zip(tap, dilation, stride, image.shape[2:], strict=True)
        )
        for g in range(op.groups):
            f, c = slice(g * outs, (g + 1) * outs), slice(g * part, (g + 1) * part)
            weights = w[(c, slice(None), *tap)]
            y[(slice(None), f, *at)] += np.einsum("cf,nc...->nf...", weights, image[:, c])
    kept = tuple(slice(p, p + n) for p, n in zip(padding, sizes, strict=True))
    y = y[(slice(None), slice(None), *kept)]
    return np.moveaxis(y * own["alpha"], 1, given.channel_axis), []


def _conv(op, given, x, own):
    if op.is_transposed:
        return _transposed(op, given, x, own)
    rank = len(given.spatial_axes)
    kernel, stride, padding, dilation = (
        windows.spread(v, rank) for v in (op.kernel, op.stride, op.padding, op.dilation)
    )
    image, w = _first(given, x), _first(given, own["weights"])
    sizes = windows.windows(given, kernel, stride, padding, dilation)
    image = np.pad(image, [(0, 0), (0, 0), *((p, p) for p in padding)])
    y = np.zeros((image.shape[0], op.filters, *sizes))
    part, outs = image.shape[1] // op.groups, op.filters // op.groups
    for tap in np.ndindex(*kernel):
        at = tuple(
            slice(t * d, t * d + s * (n - 1) + 1, s)
            for t, d, s, n in zip(tap, dilation, stride, sizes, strict=True)
        )
        window = image[(slice(None), slice(None), *at)]
        for g in range(op.groups):
            f, c = slice(g * outs, (g + 1) * outs), slice(g * part, (g + 1) * part)
            weights = w[(f, slice(None), *tap)]
            y[:, f] += np.einsum("fc,nc...->nf...", weights, window[:, c])
    return np.moveaxis(y * own["alpha"], 1, given.channel_axis), []


def _pool(op, given, x, own):
    rank = len(given.spatial_axes)
    kernel, stride, padding = (windows.spread(v, rank) for v in (op.kernel, op.stride, op.padding))
    image = _first(given, x)
    sizes = windows.windows(given, kernel, stride, padding, (1,) * rank)
    border = [(0, 0), (0, 0), *((p, p) for p in padding)]
    fill = -np.inf if op.mode == "max" else 0.0
    padded = np.pad(image, border, constant_values=fill)
    inside = np.pad(np.ones_like(image), border)
    y = np.full((*image.shape[:2], *sizes), fill)
    count = np.zeros_like(y)
    for tap in np.ndindex(*kernel):
        at = tuple(
            slice(t, t + s * (n - 1) + 1, s) for t, s, n in zip(tap, stride, sizes, strict=True)
        )
        window = padded[(slice(None), slice(None), *at)]
        y = np.maximum(y, window) if op.mode == "max" else y + window
        count += inside[(slice(None), slice(None), *at)]
    if op.mode == "average":
        y = y / count
    if op.mode == "average_inclusive":
        y = y / np.prod(kernel)
    return np.moveaxis(y, 1, given.channel_axis), []


def _batch_norm(op, given, x, own):
    scale, bias, mean, variance = (
        _channels(given, own[name]) for name in ("scale", "bias", "mean", "variance")
    )
    return scale * (x - mean) / np.sqrt(variance + own["epsilon"]) + bias, []


def _over(op, given):
    if op.mode == "per_activation":
        return (0,)
    return tuple(i for i in range(given.rank) if i != given.channel_axis)


def _training(op, given, x, own):
    over = _over(op, given)
    mean, variance = x.mean(over), x.var(over)
    inverse = 1 / np.sqrt(variance + own["epsilon"])
    count = x.size / mean.size
    part = own["momentum"]
    y = (x - _channels(given, mean)) * _channels(given, inverse * own["scale"])
    unbiased = variance * count / max(count - 1, 1)
    running_mean = (1 - part) * own["running_mean"] + part * mean
    running_variance = (1 - part) * own["running_variance"] + part * unbiased
    y = y + _channels(given, own["bias"])
    return y, [mean, inverse, running_mean, running_variance]


def _backward(op, given, dy, own):
    over = _over(op, given)
    mean, inverse = (_channels(given, own[n]) for n in ("saved_mean", "saved_inverse_deviation"))
    normalized = (own["x"] - mean) * inverse
    d_bias, d_scale = dy.sum(over), (dy * normalized).sum(over)
    count = dy.size / d_bias.size
    part = normalized * _channels(given, d_scale) / count
    rest = dy - _channels(given, d_bias) / count - part
    return rest * _channels(given, own["scale"]) * inverse, [d_scale, d_bias]


def _norm(op, given, x, own):
    centered = x - x.mean(-1, keepdims=True) if op.mode == "layer" else x
    y = centered / np.sqrt((centered**2).mean(-1, keepdims=True) + own["epsilon"])
    return y * own["scale"] + own.get("bias", 0.0), []


def _softmax(op, given, x, own):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True), []


def _attention(op, given, x, own):
    scores = np.einsum("bhqc,bhkc->bhqk", x, own["keys"]) * op.scale(given)
    weights, _ = _softmax(op, given, scores, own)
    return np.einsum("bhqk,bhkc->bhqc", weights, own["values"]), []


def _reduce(op, given, x, own):
    return getattr(np, op.mode)(x, axis=op.positions(given)), []


_OPS = {
    "conv_forward": _conv,
    "pool": _pool,
    "bias": lambda op, given, x, own: (x + _channels(given, own["bias"]), []),
    "residual": lambda op, given, x, own: (x + own["residual"], []),
    "activation": lambda op, given, x, own: (activation(op.mode, x, **own), []),
    "activation_backward": lambda op, given, x, own: (
        x * slope(op.mode, own.pop("x"), **own),
        [],
    ),
    "batch_norm_inference": _batch_norm,
    "batch_norm_forward_training": _training,
    "batch_norm_backward": _backward,
    "matmul": lambda op, given, x, own: (
        x @ (own["weights"].T if op.transposed else own["weights"]),
        [],
    ),
    "norm": _norm,
    "softmax": _softmax,
    "attention": _attention,
    "reduce": _reduce,
    "quantize": lambda op, given, x, own: (
        np.clip(np.round(x / own["scale"]) + own["zero_point"], -128, 127),
        [],
    ),
}


def random_values(plan, seed=0):
    """An input and arguments of the plan's types; variances are positive."""
    from mlirfuse.runtime.arrays import numpy_dtype

    rng = np.random.default_rng(seed)
    values = {}
    for index, derived in enumerate(plan.derived()):
        for name, spec in derived.arguments.items():
            if not spec.shape and name in DEFAULTS:
                continue
            drawn = np.asarray(rng.standard_normal(spec.shape))
            if "variance" in name or "inverse" in name:
                drawn = np.abs(drawn) + 0.5
            if name == "weights":
                drawn *= (np.prod(spec.shape) / spec.shape[0]) ** -0.5
            values[index, name] = drawn.astype(numpy_dtype(spec.dtype))
    x = rng.standard_normal(plan.input.shape).astype(numpy_dtype(plan.input.dtype))
    return x, values
