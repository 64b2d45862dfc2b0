"""Attention, with masks, key-value caches and rotary positions."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from onnx import TensorProto

from mlirfuse.frontends.onnx_repairs.builder import Node
from mlirfuse.frontends.onnx_repairs.sizes import numbers, size_of
from mlirfuse.frontends.onnx_repairs.values import Unsupported, Value

_MASKED = -10000.0
"""Default of `mask_filter_value`."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Heads:
    """Queries, keys and values as [batch, heads, tokens, elements]."""

    query: Value
    key: Value
    value: Value

    @property
    def tokens(self) -> Value:
        """Number of queries, a scalar."""
        return size_of(self.query, 2)

    @property
    def keys(self) -> Value:
        """Number of keys, a scalar."""
        return size_of(self.key, 2)


def _split(value: Value, heads: int) -> Value:
    """[batch, tokens, heads * elements] as [batch, heads, tokens, elements]."""
    return value.reshape([0, 0, heads, -1]).transpose([0, 2, 1, 3])


def _joined(value: Value) -> Value:
    return value.transpose([0, 2, 1, 3]).reshape([0, 0, -1])


def _behind(past: Value | None, new: Value) -> Value:
    """New keys or values behind those of a cache."""
    return new if past is None else new.builder.add("Concat", past, new, axis=2)


def _scale(node: Node, heads: _Heads) -> float:
    given = float(node.attribute("scale", 0.0))
    size = heads.query.sizes[3]
    if not given and size is None:
        raise Unsupported("heads of unknown size")
    return given or 1 / math.sqrt(size or 1)


def _scores(node: Node, heads: _Heads) -> Value:
    return (heads.query @ heads.key.transpose([0, 1, 3, 2])) * _scale(node, heads)


def _causal(heads: _Heads) -> Value:
    """Whether a query sees a key: the last query sees all of them."""
    first = heads.keys - heads.tokens
    rows = (numbers(heads.tokens) + first).unsqueeze(1)
    return rows >= numbers(heads.keys).unsqueeze(0)


def _key_mask(mask: Value, heads: _Heads) -> Value:
    """Whether a query sees a key, by a mask of the keys or the numbers of keys."""
    if mask.rank == 1:
        count, batch = mask.sizes[0], heads.query.sizes[0]
        if None not in (count, batch) and count != batch:
            raise Unsupported("a mask of starts and ends")
        ends = mask.cast(TensorProto.INT64).reshape([-1, 1, 1, 1])
        return ends > numbers(heads.keys)
    seen = mask.cast(TensorProto.INT64) > 0
    if mask.rank == 2:
        return seen.unsqueeze(1, 2)
    return seen.unsqueeze(1) if mask.rank == 3 else seen


def _attended(
    node: Node, heads: _Heads, mask: Value | None, bias: Value | None, *, causal: bool
) -> Value:
    """The attention of all heads, joined."""
    builder = node.builder
    scores = _scores(node, heads)
    if bias is not None:
        scores = scores + bias
    if mask is not None:
        filled = float(node.attribute("mask_filter_value", _MASKED))
        scores = scores + _key_mask(mask, heads).where(scores.lifted(0.0), scores.lifted(filled))
    if causal:
        scores = _causal(heads).where(scores, scores.lifted(_lowest(scores)))
    return _joined(builder.add("Softmax", scores, axis=-1) @ heads.value)


def _lowest(value: Value) -> float:
    return -65504.0 if value.dtype == TensorProto.FLOAT16 else -3.4028234663852886e38


def attention(node: Node) -> list[Value | None]:
    """Attention of a tensor to itself, by one projection to queries, keys and values."""
    value, weight, bias = node.operand(0), node.operand(1), node.input(2)
    mask, past, extra = node.input(3), node.input(4), node.input(5)
    if node.attribute("do_rotary", 0) or node.input(6) is not None:
        raise Unsupported("rotary positions, or a cache in a buffer")
    projected = value @ weight
    if bias is not None:
        projected = projected + bias
    return projected_attention(node, projected, mask, past, extra)


def projected_attention(
    node: Node, projected: Value, mask: Value | None, past: Value | None, extra: Value | None
) -> list[Value | None]:
    """Attention of queries, keys and values that lie side by side."""
    count = node.attribute("num_heads")
    width = projected.sizes[2]
    if width is None:
        raise Unsupported("a projection of unknown width")
    sizes = list(node.attribute("qkv_hidden_sizes") or [width // 3] * 3)
    ends = np.cumsum([0, *sizes])
    parts = [_split(projected.slice(2, int(ends[i]), int(ends[i + 1])), count) for i in range(3)]
    if past is not None:
        parts[1:] = [_behind(past.take(i, 0), parts[i + 1]) for i in range(2)]
    heads = _Heads(*parts)
    causal = bool(node.attribute("unidirectional", 0))
    present = None
    if node.wants(1):
        present = node.builder.add(
            "Concat", heads.key.unsqueeze(0), heads.value.unsqueeze(0), axis=0
        )
    return [_attended(node, heads, mask, extra, causal=causal), present]


def multi_head_attention(node: Node) -> list[Value | None]:
    """Attention of queries to keys and values, which may be packed, or have heads already."""
    query, key, value, bias, mask, extra, past_key, past_value = (node.input(i) for i in range(8))
    if query is None or node.input(8) is not None:
        raise Unsupported("a cache in a buffer")
    count = node.attribute("num_heads")
    if key is None or (query.rank == 5 or key.rank == 5):
        parts = _unpacked(query, key)
    else:
        if value is None:
            raise Unsupported("no values")
        parts = [query, key, value]
    if bias is not None:
        parts = _biased(parts, bias)
    split = [part if part.rank == 4 else _split(part, count) for part in parts]
    if past_key is not None and past_value is not None:
        split[1:] = [_behind(past_key, split[1]), _behind(past_value, split[2])]
    heads = _Heads(*split)
    causal = bool(node.attribute("unidirectional", 0))
    result = _attended(node, heads, mask, extra, causal=causal)
    return [result, heads.key, heads.value]


def _unpacked(query: Value, key: Value | None) -> list[Value]:
    """Queries, keys and values of packed tensors, with their heads joined."""
    packed = query if key is None else key
    if packed.rank != 5:
        raise Unsupported("queries without keys")

    def part(index: int) -> Value:
        return packed.take(index, 3).reshape([0, 0, -1])

    return [part(0), part(1), part(2)] if key is None else [query, part(0), part(1)]


def _biased(parts: list[Value], bias: Value) -> list[Value]:
    widths = [part.sizes[2] if part.rank == 3 else None for part in parts]
    if any(width is None for width in widths):
        raise Unsupported("a bias of heads")
    ends = np.cumsum([0, *(width or 0 for width in widths)])
    return [part + bias.slice(0, int(ends[i]), int(ends[i + 1])) for i, part in enumerate(parts)]


def group_query_attention(node: Node) -> list[Value | None]:
    """Causal attention with fewer heads of keys than of queries, behind a cache.

    The cache holds the keys and values of the tokens before the queries, without padding.
    """
    query, key, value, past_key, past_value = (node.input(i) for i in range(5))
    lengths, cosine, sine, places, extra = (node.input(i) for i in (5, 7, 8, 9, 10))
    if query is None or lengths is None or node.input(11) is not None:
        raise Unsupported("a sink")
    if node.attribute("smooth_softmax", 0) or node.attribute("softcap", 0.0):
        raise Unsupported("a soft cap")
    count, groups = node.attribute("num_heads"), node.attribute("kv_num_heads")
    if key is None or value is None:
        query, key, value = _side_by_side(query, count, groups)
    split = [_split(query, count), _split(key, groups), _split(value, groups)]
    builder = node.builder
    before = builder.constant(np.array(0)) if past_key is None else size_of(past_key, 2)
    if node.attribute("do_rotary", 0):
        if cosine is None or sine is None:
            raise Unsupported("no angles")
        if places is None:
            places = (numbers(size_of(split[0], 2)) + before).unsqueeze(0)
        interleaved = bool(node.attribute("rotary_interleaved", 0))
        split[:2] = [_rotated(v, cosine, sine, places, interleaved) for v in split[:2]]
    if past_key is not None and past_value is not None:
        fixed, made = past_key.sizes[2], node.result_shape(1)
        if fixed and made is not None and made[2] == fixed:
            raise Unsupported("a cache in a buffer")
        split[1:] = [_behind(past_key, split[1]), _behind(past_value, split[2])]
    present = split[1:]
    if count != groups:
        split[1:] = [_repeated(part, count // groups) for part in present]
    heads = _Heads(*split)
    scores = _scores(node, heads)
    if extra is not None:
        scores = scores + extra
    rows = (numbers(heads.tokens) + before).unsqueeze(1)
    columns = numbers(heads.keys).unsqueeze(0)
    seen = rows >= columns
    window = int(node.attribute("local_window_size", -1))
    if window > 0:
        seen = seen & (columns > rows - window)
    # The sequences of a batch may end in padding.
    ends = lengths.cast(TensorProto.INT64).reshape([-1, 1, 1, 1])
    seen = seen & (ends >= numbers(heads.keys))
    scores = seen.where(scores, scores.lifted(_lowest(scores)))
    return [_joined(builder.add("Softmax", scores, axis=-1) @ heads.value), *present]


def _side_by_side(packed: Value, count: int, groups: int) -> tuple[Value, Value, Value]:
    width = packed.sizes[2]
    if width is None:
        raise Unsupported("heads of unknown size")
    size = width // (count + 2 * groups)
    first, second = count * size, (count + groups) * size
    return packed.slice(2, 0, first), packed.slice(2, first, second), packed.slice(2, second, width)


def _repeated(value: Value, times: int) -> Value:
    """Each head several times in a row."""
    heads = value.sizes[1]
    if heads is None:
        raise Unsupported("an unknown number of heads")
    return value.take(np.repeat(np.arange(heads), times), 1)


def rotary_embedding(node: Node) -> Value:
    """Pairs of elements turned by the angles of their positions."""
    value, places, cosine, sine = (node.operand(i) for i in range(4))
    count = node.attribute("num_heads", 0)
    flat = value.rank == 3
    if node.attribute("is_packed_batching", 0):
        raise Unsupported("sequences without padding")
    if flat:
        width, pairs = value.sizes[2], cosine.static[1]
        if not count and (width is None or width % (2 * pairs)):
            raise Unsupported("an unknown number of heads")
        value = _split(value, count or (width or 0) // (2 * pairs))
    if places.rank == 1:
        places = (numbers(size_of(value, 2)) + places.cast(TensorProto.INT64)).unsqueeze(0)
    turned = _rotated(value, cosine, sine, places, bool(node.attribute("interleaved", 0)))
    return _joined(turned) if flat else turned


def _rotated(value: Value, cosine: Value, sine: Value, places: Value, interleaved: bool) -> Value:
    """Rotary positions of [batch, heads, tokens, elements].

    Args:
      value: the heads.
      cosine: of each position, for each pair of elements.
      sine: as `cosine`.
      places: the positions, [batch or 1, tokens].
      interleaved: whether the elements of a pair are neighbours.
    """
    builder, size = value.builder, value.sizes[3]
    pairs = cosine.static[1]
    if size is None or size < 2 * pairs:
        raise Unsupported("heads of unknown size")
    turned = value.slice(3, 0, 2 * pairs)
    cos, sin = (table.take(places, 0).unsqueeze(1) for table in (cosine, sine))
    if interleaved:
        first, second = (turned.slice(3, start, 2 * pairs, 2) for start in (0, 1))
    else:
        first, second = turned.slice(3, 0, pairs), turned.slice(3, pairs, 2 * pairs)
    parts = [first * cos - second * sin, second * cos + first * sin]
    if interleaved:
        stacked = builder.add("Concat", *(part.unsqueeze(4) for part in parts), axis=4)
        result = stacked.reshape([0, 0, 0, -1])
    else:
        result = builder.add("Concat", *parts, axis=3)
    if size == 2 * pairs:
        return result
    return builder.add("Concat", result, value.slice(3, 2 * pairs, size), axis=3)
