"""Source that places a CTA's tile in the result of a matmul."""

from __future__ import annotations

from mlirfuse.kernels.codegen.iteration_space import Space, known_product, product_text
from mlirfuse.kernels.matmul.problem import MatmulConfig


def tile_placement(
    space: Space, m_group: int, n_group: int, config: MatmulConfig, *, wide: bool
) -> list[str]:
    """The lines that compute the indices along M and N of a CTA's tile, and their masks.

    Args:
      space: the iteration space.
      m_group: index of its group of the axes of M.
      n_group: the same of N, whose sizes are static.
      config: the tile.
      wide: whether offsets need 64 bits.
    """
    block_m, block_n = config.block_m, config.block_n
    m, n = (space.groups[group] for group in (m_group, n_group))
    tiles_n = -(-known_product(n.sizes) // block_n)
    return [
        f"pid_m, pid_n = library.swizzle_tile(tl.program_id(0), tl.cdiv({product_text(m.sizes)}, "
        f"{block_m}), {tiles_n}, {config.group_m})",
        f"{m.flat} = (pid_m * {block_m} + tl.arange(0, {block_m}))"
        f"{'.to(tl.int64)' if wide else ''}[:, None]",
        f"{n.flat} = (pid_n * {block_n} + tl.arange(0, {block_n}))[None, :]",
        *space.inside(m_group, n_group),
    ]
