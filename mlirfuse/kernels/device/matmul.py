"""Main loops of matmul kernels of one tile per CTA, in Triton."""

import triton
import triton.language as tl

from mlirfuse.kernels.device import library

IEEE = tl.constexpr("ieee")
"""The input precision of `tl.dot` where there is no choice; Triton 3.6 takes no plain text here."""


@triton.jit
def _and(a, b):
    """Both masks hold; the first may be None: always."""
    return b if a is None else a & b


@triton.jit
def tile(
    a,
    b,
    a_stride,
    b_stride,
    mask_m,
    mask_n,
    k: tl.constexpr,
    k_of_a: tl.constexpr,
    k_of_b: tl.constexpr,
    block_m: tl.constexpr,
    block_n: tl.constexpr,
    block_k: tl.constexpr,
    dtype: tl.constexpr,
    input_precision: tl.constexpr = IEEE,
):
    """The accumulator of a tile, with tensor cores.

    Args:
      a: pointers to the first elements along K of rows of A, shape [block_m, 1].
      b: pointers to the first elements along K of columns of B, shape [1, block_n].
      a_stride: elements from one index along K to the next in A.
      b_stride: the same in B.
      mask_m: the rows inside A, shape [block_m, 1]; None where all are.
      mask_n: the columns inside B, shape [1, block_n]; None where all are.
      k: contracted elements.
      k_of_a: elements of A along K, zeros behind the contracted ones among them.
      k_of_b: the same of B.
      block_m: size of the tile along M.
      block_n: size of the tile along N.
      block_k: elements of K at a time.
      dtype: element type of the accumulator.
      input_precision: that of `tl.dot`, which f32 operands alone have.
    """
    offs_k = tl.arange(0, block_k)
    a_block = a + offs_k[None, :] * a_stride
    b_block = b + offs_k[:, None] * b_stride
    accumulator = tl.zeros([block_m, block_n], dtype=dtype)
    for _ in range(0, k // block_k):
        a_values = library.load(a_block, mask_m)
        b_values = library.load(b_block, mask_n)
        accumulator = tl.dot(a_values, b_values, accumulator, input_precision, out_dtype=dtype)
        a_block += block_k * a_stride
        b_block += block_k * b_stride
    if k % block_k:
        mask_a = offs_k < k_of_a - k // block_k * block_k
        mask_b = offs_k < k_of_b - k // block_k * block_k
        a_values = library.load(a_block, _and(mask_m, mask_a[None, :]))
        b_values = library.load(b_block, _and(mask_n, mask_b[:, None]))
        accumulator = tl.dot(a_values, b_values, accumulator, input_precision, out_dtype=dtype)
    return accumulator


@triton.jit
def part_of_k(
    a,
    b,
    a_stride,
    b_stride,
    mask_m,
    mask_n,
    k: tl.constexpr,
    k_of_a: tl.constexpr,
    k_of_b: tl.constexpr,
    first,
    size: tl.constexpr,
    block_m: tl.constexpr,
    block_n: tl.constexpr,
    block_k: tl.constexpr,
    dtype: tl.constexpr,
    input_precision: tl.constexpr = IEEE,
):
    """The accumulator of a tile over a part of K; the last part may end beyond K.

    The arguments are those of `tile`, and:
      first: the first element of K.
      size: elements of K of a part, a multiple of `block_k`.
    """
    offs_k = tl.arange(0, block_k)
    start = first.to(tl.int64)
    a_block = a + (start + offs_k)[None, :] * a_stride
    b_block = b + (start + offs_k)[:, None] * b_stride
    accumulator = tl.zeros([block_m, block_n], dtype=dtype)
    last = tl.minimum(first + size, k)
    for at in range(first, last, block_k):
        if k % block_k:
            a_values = library.load(a_block, _and(mask_m, (offs_k < k_of_a - at)[None, :]))
            b_values = library.load(b_block, _and(mask_n, (offs_k < k_of_b - at)[:, None]))
        else:
            a_values = library.load(a_block, mask_m)
            b_values = library.load(b_block, mask_n)
        accumulator = tl.dot(a_values, b_values, accumulator, input_precision, out_dtype=dtype)
        a_block += block_k * a_stride
        b_block += block_k * b_stride
    return accumulator


@triton.jit
def part_of_class(
    a,
    b,
    a_stride,
    b_stride,
    mask_m,
    offs_n,
    n: tl.constexpr,
    k: tl.constexpr,
    row_class,
    before,
    classes: tl.constexpr,
    vector: tl.constexpr,
    first,
    size: tl.constexpr,
    block_m: tl.constexpr,
    block_n: tl.constexpr,
    block_k: tl.constexpr,
    dtype: tl.constexpr,
    input_precision: tl.constexpr = IEEE,
):
    """The accumulator of a tile over a part of the rows of B of one class.

    The arguments are those of `tile`, and:
      offs_n: the columns of the tile, shape [1, block_n]; those in front of B's are `before`.
      n: columns of B, whose rows are contiguous.
      row_class: the first row of the class.
      before: elements between the multiple of `vector` before that row and its start.
      classes: rows from one of the class to the next, whose distance is a multiple of `vector`.
      vector: elements of a vectorized load.
      first: the first row of the part among those of the class.
      size: rows of a part, a multiple of `block_k`.
    """
    offs_k = tl.arange(0, block_k)
    start = first.to(tl.int64)
    a_block = a + (row_class + (start + offs_k) * classes)[None, :] * a_stride
    b += row_class * n // vector * vector
    b_block = b + (start + offs_k)[:, None] * (classes * n)
    end = n + before
    whole = offs_n < end // vector * vector
    inside = offs_n < (end + vector - 1) // vector * vector
    accumulator = tl.zeros([block_m, block_n], dtype=dtype)
    last = tl.minimum(first + size, (k - row_class + classes - 1) // classes)
    for at in range(first, last, block_k):
        rows = row_class + (at + offs_k) * classes
        a_values = library.load(a_block, _and(mask_m, (rows < k)[None, :]))
        # Behind the last row there is nothing: its last vector is loaded only if it is whole.
        mask_b = ((rows < k - 1)[:, None] & inside) | ((rows < k)[:, None] & whole)
        b_values = library.load(b_block, mask_b)
        accumulator = tl.dot(a_values, b_values, accumulator, input_precision, out_dtype=dtype)
        a_block += block_k * classes * a_stride
        b_block += block_k * classes * n
    of_last: tl.constexpr = (k - 1) // classes
    if (row_class == (k - 1) % classes) & (first <= of_last) & (of_last < first + size):
        a_values = library.load(a + (k - 1) * a_stride, mask_m)
        b_values = library.load(b + of_last * (classes * n), (offs_n < end) & ~whole)
        accumulator += a_values.to(dtype) * b_values.to(dtype)
    return accumulator


@triton.jit
def split_k(
    a,
    b,
    a_stride,
    b_stride,
    mask_m,
    mask_n,
    k: tl.constexpr,
    k_of_a: tl.constexpr,
    k_of_b: tl.constexpr,
    block_m: tl.constexpr,
    block_n: tl.constexpr,
    block_k: tl.constexpr,
    parts: tl.constexpr,
    input_precision: tl.constexpr = IEEE,
):
    """The accumulator of a tile in f32, where each warp accumulates a part of every block of K.

    The arguments are those of `tile`, and:
      parts: parts of a block of K, one per warp.
      input_precision: that of `tl.dot`, which f32 operands alone have.
    """
    part_k: tl.constexpr = block_k // parts
    offs_k = tl.arange(0, parts)[:, None] * part_k + tl.arange(0, part_k)[None, :]
    a_block = a[None, :, :] + offs_k[:, None, :] * a_stride
    b_block = b[None, :, :] + offs_k[:, :, None] * b_stride
    mask_a = mask_m if mask_m is None else mask_m[None, :, :]
    mask_b = mask_n if mask_n is None else mask_n[None, :, :]
    accumulator = tl.zeros([parts, block_m, block_n], dtype=tl.float32)
    for _ in range(0, k // block_k):
        a_values = library.load(a_block, mask_a)
        b_values = library.load(b_block, mask_b)
        accumulator = tl.dot(a_values, b_values, accumulator, input_precision)
        a_block += block_k * a_stride
        b_block += block_k * b_stride
    if k % block_k:
        last_of_a = offs_k < k_of_a - k // block_k * block_k
        last_of_b = offs_k < k_of_b - k // block_k * block_k
        a_values = library.load(a_block, _and(mask_a, last_of_a[:, None, :]))
        b_values = library.load(b_block, _and(mask_b, last_of_b[:, :, None]))
        accumulator = tl.dot(a_values, b_values, accumulator, input_precision)
    return tl.sum(accumulator, 0)


@triton.jit
def copy_rows(
    x,
    y,
    elements: tl.constexpr,
    columns: tl.constexpr,
    pitch: tl.constexpr,
    pid,
    block: tl.constexpr,
):
    """Copies a block of a tensor to one with longer rows, which end with zeros.

    Args:
      x: pointer to the tensor.
      y: pointer to the copy.
      elements: elements of the copy.
      columns: elements of a row of the tensor.
      pitch: elements of a row of the copy.
      pid: index of the block.
      block: elements of the copy in a block.
    """
    at = pid * block + tl.arange(0, block)
    column = at % pitch
    inside = at < elements
    values = tl.load(x + at // pitch * columns + column, mask=inside & (column < columns), other=0)
    tl.store(y + at, values, mask=inside)


@triton.jit
def copy_turned_rows(
    x,
    y,
    elements: tl.constexpr,
    columns: tl.constexpr,
    pitch: tl.constexpr,
    pid,
    block: tl.constexpr,
    batch: tl.constexpr,
    lanes: tl.constexpr,
):
    """Copies a block of a tensor of shape [elements, batch] to one of shape [batch, elements].

    Args:
      x: pointer to the tensor.
      y: pointer to the copy, whose rows are longer and end with zeros.
      elements: elements of a matrix of the copy.
      columns: elements of a row of the tensor's matrices.
      pitch: elements of a row of the copy.
      pid: index of the block.
      block: elements of each matrix in a block.
      batch: the matrices, innermost in the tensor.
      lanes: matrices in a block.
    """
    tiles: tl.constexpr = (batch + lanes - 1) // lanes
    at = pid // tiles * block + tl.arange(0, block)[:, None]
    matrix = pid % tiles * lanes + tl.arange(0, lanes)[None, :]
    column = at % pitch
    inside = (at < elements) & (matrix < batch)
    source = (at // pitch * columns + column) * batch + matrix
    values = tl.load(x + source, mask=inside & (column < columns), other=0)
    tl.store(y + matrix * elements + at, values, mask=inside)


@triton.jit
def gemv(
    a,
    b,
    a_stride,
    b_stride,
    mask_n,
    k: tl.constexpr,
    block_n: tl.constexpr,
    block_k: tl.constexpr,
    num_stages: tl.constexpr,
    dtype: tl.constexpr,
):
    """The accumulator of a tile with M = 1, without tensor cores, shape [1, block_n].

    Args:
      a: pointer to the first element of the row of A, shape [1, 1].
      b: pointers to the first elements along K of columns of B, shape [1, block_n].
      a_stride: elements from one index along K to the next in A.
      b_stride: the same in B.
      mask_n: the columns inside B, shape [1, block_n]; None where all are.
      k: contracted elements.
      block_n: size of the tile along N.
      block_k: elements of K at a time.
      num_stages: depth of the software pipeline.
      dtype: element type of the accumulator.
    """
    offs_k = tl.arange(0, block_k)[:, None]
    a_block = a + offs_k * a_stride
    b_block = b + offs_k * b_stride
    accumulator = tl.zeros([block_k, block_n], dtype=dtype)
    for _ in tl.range(0, k // block_k, num_stages=num_stages):
        a_values = tl.load(a_block)
        b_values = library.load(b_block, mask_n)
        accumulator += a_values.to(dtype) * b_values.to(dtype)
        a_block += block_k * a_stride
        b_block += block_k * b_stride
    if k % block_k:
        mask_k = offs_k < k % block_k
        a_values = library.load(a_block, mask_k)
        b_values = library.load(b_block, _and(mask_n, mask_k))
        accumulator += a_values.to(dtype) * b_values.to(dtype)
    return tl.sum(accumulator, 0, keep_dims=True)
