"""Sizes of an attention, static or dynamic, and their text in a kernel."""

from __future__ import annotations

import dataclasses

from mlirfuse.kernels.codegen.iteration_space import power_of_two

DYNAMIC_SIZES = BATCH_SIZE, QUERY_SIZE, KEY_SIZE = ("batch_size", "query_size", "key_size")
"""Names of the dynamic sizes, in the order of a kernel's arguments."""

MIN_DOT_SIZE = 16
"""Smallest dimension of an operand of `tl.dot`."""


def padded_head(size: int) -> int:
    """The extent of a tile along the elements of a head: a power of two that `tl.dot` takes."""
    return max(MIN_DOT_SIZE, power_of_two(size))


@dataclasses.dataclass(frozen=True, slots=True)
class AttentionSizes:
    """Sizes of an attention.

    Attributes:
      qk_head_size: elements of a query and of a key.
      v_head_size: elements of a value and of a result.
      keys: keys of a head; None where dynamic.
      queries: queries of a head; None where dynamic.
      heads: heads of all batches; those of one batch where `dynamic_batch` holds.
      dynamic_batch: whether the number of batches is dynamic.
    """

    qk_head_size: int
    v_head_size: int
    keys: int | None
    queries: int | None
    heads: int
    dynamic_batch: bool

    @property
    def dynamic(self) -> tuple[str, ...]:
        """Names of the dynamic sizes, in the order of the kernel's arguments."""
        sizes = (None if self.dynamic_batch else 1, self.queries, self.keys)
        return tuple(name for name, size in zip(DYNAMIC_SIZES, sizes, strict=True) if size is None)

    @property
    def is_static(self) -> bool:
        """Whether all sizes are known."""
        return not self.dynamic

    def dynamic_index(self, name: str) -> tuple[int, ...]:
        """The index of a size among the dynamic ones, as a tuple; empty where it is static."""
        return (self.dynamic.index(name),) if name in self.dynamic else ()

    @property
    def heads_text(self) -> str:
        """The number of heads of all batches in a kernel."""
        return f"({BATCH_SIZE} * {self.heads})" if self.dynamic_batch else str(self.heads)

    @property
    def queries_text(self) -> str:
        """The number of queries in a kernel."""
        return QUERY_SIZE if self.queries is None else str(self.queries)

    @property
    def keys_text(self) -> str:
        """The number of keys in a kernel."""
        return KEY_SIZE if self.keys is None else str(self.keys)

    @property
    def index_cast(self) -> str:
        """The cast of indices to 64 bits where 32 may not reach all elements; else empty."""
        return ".to(tl.int64)" if self.dynamic else ""

    def has_query_tail(self, block_m: int) -> bool:
        """Whether the last tile of queries may be partial."""
        return self.queries is None or self.queries % block_m != 0

    def has_key_tail(self, block_n: int) -> bool:
        """Whether the last block of keys may be partial."""
        return self.keys is None or self.keys % block_n != 0
