"""Online softmax of the portable attention kernels, in Triton."""

import triton
import triton.language as tl

IEEE = tl.constexpr("ieee")
"""The input precision of `tl.dot` where there is no choice; Triton 3.6 takes no plain text here."""


@triton.jit
def online_softmax_step(
    score,
    scale: tl.constexpr,
    v,
    accumulator,
    row_sum,
    row_max,
    input_precision: tl.constexpr = IEEE,
):
    """Adds a block of keys to the state of an online softmax.

    Args:
      score: q times k, shape [queries, keys]; -inf where a key is masked.
      scale: factor of the scores times log2(e), above zero.
      v: values of the keys, shape [keys, head_size].
      accumulator: weighted sum of the values so far, shape [queries, head_size].
      row_sum: sum of the weights so far, shape [queries, 1].
      row_max: largest scaled score so far, shape [queries, 1].
      input_precision: that of `tl.dot`, which f32 operands alone have.
    """
    next_max = tl.maximum(row_max, tl.max(score, 1, keep_dims=True) * scale)
    # While every key is masked, the difference to the maximum is not a number.
    base = tl.where(next_max == float("-inf"), 0.0, next_max)
    probs = tl.exp2(score * scale - base)
    factor = tl.exp2(row_max - base)
    accumulator = tl.dot(probs.to(v.dtype), v, accumulator * factor, input_precision)
    row_sum = row_sum * factor + tl.sum(probs, 1, keep_dims=True)
    return accumulator, row_sum, next_max


@triton.jit
def keys_per_split(
    keys,
    num_tiles,
    max_ctas: tl.constexpr,
    min_keys: tl.constexpr,
    block_n: tl.constexpr,
):
    """The keys of each split: full blocks, at least one.

    Args:
      keys: number of keys.
      num_tiles: tiles of queries of all heads.
      max_ctas: CTAs that the device holds at a time.
      min_keys: keys that are worth a CTA of their own.
      block_n: keys of a block.
    """
    splits = tl.maximum(tl.minimum(max_ctas // num_tiles, keys // min_keys), 1)
    return tl.maximum(tl.cdiv(keys, splits * block_n), 1) * block_n


@triton.jit
def merged_splits(accumulators, sums, maxima):
    """The state of the online softmax of a query over several parts of the keys.

    Args:
      accumulators: weighted sums of the values of each part, shape [parts, head_size].
      sums: sums of their weights, shape [parts, 1].
      maxima: their largest scaled scores; -inf where all of them are masked.
    """
    largest = tl.max(maxima, 0, keep_dims=True)
    base = tl.where(largest == float("-inf"), 0.0, largest)
    weights = tl.exp2(maxima - base)
    accumulator = tl.sum(accumulators * weights, 0, keep_dims=True)
    return accumulator, tl.sum(sums * weights, 0, keep_dims=True), largest


@triton.jit
def merge_splits(split_accumulator, split_sum, split_max, accumulator, row_sum, row_max):
    """Adds the state of an online softmax over other keys.

    Args:
      split_accumulator: weighted sum of the values of the other keys, shape [queries, head_size].
      split_sum: sum of their weights, shape [queries, 1].
      split_max: their largest scaled score; -inf where all of them are masked.
      accumulator: weighted sum of the values so far.
      row_sum: sum of the weights so far.
      row_max: largest scaled score so far.
    """
    next_max = tl.maximum(row_max, split_max)
    base = tl.where(next_max == float("-inf"), 0.0, next_max)
    factor = tl.exp2(row_max - base)
    split_factor = tl.exp2(split_max - base)
    accumulator = accumulator * factor + split_accumulator * split_factor
    return accumulator, row_sum * factor + split_sum * split_factor, next_max
