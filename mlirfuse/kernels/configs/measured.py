"""Tiles measured on devices: what `mlirfuse-tune --kernels` found with this release's kernels.

`cuda:sm_90`: one NVIDIA H100 80GB HBM3, 2026-11-21, Triton 3.9.0, IREE 3.13.0, operands of f16 in
several copies, more than the cache of 50 MB holds; medians of 12 rounds of 5 launches. Few rows
and convolutions of 3x3 and 7x7: medians of 7 launches by the profiler; group norms: of 11 calls,
products of 32 to 512 rows: of 8, 2026-11-22.
"""

from __future__ import annotations

import dataclasses

from mlirfuse.targets.base import Tuned


@dataclasses.dataclass(frozen=True, slots=True)
class Beside:
    """A kernel beside IREE's code for the same region.

    Attributes:
      form: what tells such kernels apart.
      sizes: rows and columns; elements of a kernel without reductions.
      iree_us: microseconds of IREE's code.
      kernel_us: microseconds of the kernel.
    """

    form: str
    sizes: tuple[int, ...]
    iree_us: float
    kernel_us: float


_ROW_TILINGS = {
    (16384, 1024): (2048, 16, 32768),
    (16384, 4096): (4096, 16, 32768),
    (16384, 8192): (8192, 16, 32768),
    (2048, 32768): (32768, 32, 32768),
}
"""Rows and columns -> tiling, where a form has no other."""

_OTHER_ROW_TILINGS = {
    ("arith.addf, 2 read, 2 written", (16384, 1024)): (2048, 32, 32768),
    ("arith.addf arith.addf, 2 read, 2 written", (16384, 1024)): (2048, 32, 32768),
    ("arith.addf arith.maximumf, 1 read, 1 written", (16384, 1024)): (2048, 32, 32768),
    ("arith.addf, 1 read, 1 written, 8 bits", (16384, 1024)): (1024, 32, 32768, 0, 1),
    ("arith.addf, 1 read, 1 written, 8 bits", (2048, 32768)): (32768, 32, 32768, 1),
    ("arith.addf arith.maximumf, 1 read, 1 written", (2048, 32768)): (32768, 32, 32768, 1),
}
"""Form, rows and columns -> tiling."""

_ROW_TIMES = {
    "arith.addf, 1 read, 1 written": (24.0, 93.8, 182.6, 96.6),
    "arith.addf, 1 read, 1 written, 8 bits": (17.5, 70.4, 135.5, 68.6),
    "arith.addf, 2 read, 2 written": (45.7, 183.3, 361.0, 187.0),
    "arith.addf arith.addf, 1 read, 1 written": (24.2, 94.1, 181.9, 98.5),
    "arith.addf arith.addf, 2 read, 2 written": (46.0, 183.5, 362.3, 187.1),
    "arith.addf arith.maximumf, 1 read, 1 written": (23.8, 93.3, 181.7, 91.7),
}
"""Form -> microseconds with each of these; 1024 columns, and the other tilings, by the profiler,
sides in a new order each round."""

_FEW_LONG_ROWS = {
    (64, 10240): ((2048, 8, 2048), 4.2),
    (64, 20480): ((4096, 16, 4096), 5.4),
    (64, 40960): ((8192, 16, 8192), 8.0),
    (256, 40960): ((8192, 16, 8192), 26.6),
}
"""Rows and columns of group norms with SiLU -> tiling and microseconds, by the profiler: the parts
of a row fill the device, and none has a column too many."""

_CONVOLUTIONS = {
    (100352, 64, 64, 1): ((128, 64, 64, 4, 8, 8, 1, 2, 1), 10.4),
    (100352, 64, 64, 9): ((128, 64, 64, 4, 8, 8, 1, 2, 1), 22.6),
    (100352, 64, 256, 1): ((128, 64, 64, 4, 8, 8, 1, 2, 1), 24.4),
    (100352, 128, 256, 1): ((128, 128, 64, 4, 6, 8, 1, 2, 1), 28.4),
    (100352, 256, 64, 1): ((64, 128, 64, 4, 8, 8, 1, 3, 1), 42.7),
    (25088, 128, 128, 9): ((64, 128, 64, 4, 8, 8, 1, 3, 1), 18.2),
    (25088, 128, 512, 1): ((64, 128, 64, 4, 8, 8, 1, 3, 1), 14.3),
    (25088, 256, 512, 1): ((64, 256, 64, 4, 5, 8, 1, 2, 1), 17.3),
    (25088, 512, 128, 1): ((64, 128, 64, 4, 8, 8, 1, 3, 1), 22.9),
    (25088, 512, 256, 1): ((128, 128, 64, 4, 6, 8, 1, 2, 1), 17.8),
    (6272, 256, 256, 9): ((128, 128, 64, 4, 6, 8, 1, 2, 0), 16.5),
    (6272, 256, 1024, 1): ((128, 128, 64, 4, 6, 8, 1, 2, 0), 10.7),
    (6272, 512, 1024, 1): ((192, 128, 64, 4, 5, 8, 1, 3, 0), 14.7),
    (6272, 1024, 256, 1): ((64, 128, 64, 4, 8, 8, 1, 3, 1), 14.3),
    (6272, 1024, 512, 1): ((128, 128, 64, 4, 6, 8, 1, 2, 1), 14.5),
    (1568, 512, 512, 9): ((64, 128, 64, 4, 8, 32, 1, 3, 1), 19.1),
    (1568, 512, 2048, 1): ((64, 128, 64, 4, 8, 8, 1, 3, 1), 11.6),
    (1568, 2048, 512, 1): ((64, 128, 64, 4, 8, 8, 1, 3, 1), 12.6),
    (1568, 2048, 1024, 1): ((128, 256, 64, 4, 4, 8, 1, 2, 0), 16.4),
}
"""Rows, columns, channels and places of the window of a convolution whose channels fill blocks of
terms in image and filter -> tiling and microseconds; a residual is added where channels grow."""

_WEIGHTS = {
    "8 bits": (
        ((1, 8, 512, 4, 3), 10.7),
        ((16, 32, 256, 4, 4), 12.7),
        ((128, 128, 64, 8, 3), 320.7),
    ),
    "4 bits": (
        ((1, 8, 512, 4, 3), 11.4),
        ((16, 32, 256, 4, 4), 15.5),
        ((128, 128, 64, 8, 3), 347.7),
    ),
    "4 bits, runs": (
        ((16, 32, 128, 4, 5), 18.1),
        ((16, 32, 128, 4, 5), 17.3),
        ((256, 128, 64, 8, 3), 363.9),
    ),
}
"""Weights of 4096x4096, with a scale for each column or each run of 128 terms -> tiling and
microseconds of 1, 16 and 4096 rows."""

_STRAIGHT = {
    "8 bits": (
        ((1, 4096, 4096, 1), (8, 16, 2, 8), 7.8),
        ((1, 14336, 4096, 1), (8, 16, 2, 4), 21.3),
        ((8, 4096, 4096, 1), (8, 16, 2, 8), 8.2),
        ((16, 4096, 4096, 1), (16, 16, 2, 8), 9.7),
        ((1, 4096, 14336, 1), (8, 16, 2, 8), 21.9),
        ((16, 14336, 4096, 1), (16, 32, 1, 8), 27.6),
        ((16, 4096, 14336, 1), (16, 16, 2, 8), 25.0),
        ((64, 4096, 4096, 1), (32, 32, 1, 8), 21.3),
    ),
    "4 bits": (
        ((1, 4096, 4096, 1), (8, 16, 4, 8), 6.1),
        ((8, 4096, 4096, 1), (8, 16, 2, 8), 7.0),
        ((16, 4096, 4096, 1), (16, 32, 1, 8), 8.6),
        ((64, 4096, 4096, 1), (32, 32, 1, 8), 20.7),
    ),
    "4 bits, runs": (
        ((1, 4096, 4096, 1), (8, 16, 2, 4), 6.3),
        ((1, 14336, 4096, 1), (8, 16, 2, 4), 14.7),
        ((1, 4096, 14336, 1), (8, 16, 2, 8), 14.3),
        ((8, 4096, 4096, 1), (8, 16, 2, 8), 7.4),
        ((16, 4096, 4096, 1), (16, 32, 1, 8), 8.2),
        ((16, 14336, 4096, 1), (16, 32, 1, 8), 27.2),
        ((16, 4096, 14336, 1), (16, 32, 1, 8), 20.4),
        ((64, 4096, 4096, 1), (32, 32, 1, 8), 21.3),
        ((64, 14336, 4096, 1), (32, 32, 1, 8), 65.5),
        ((64, 4096, 14336, 1), (32, 32, 1, 8), 55.6),
    ),
    "8 bits, runs": (((8, 4096, 4096, 1), (8, 16, 2, 8), 8.5),),
}
"""Weights that go straight to matrix units -> sizes; height and width of a tile, lines of 64 bytes
of a column for each warp, warps; and microseconds, by the profiler."""


_SOME_ROWS = {
    "k inside": (
        ((32, 4096, 4096), (64, 32, 128, 4, 6), 14.5),
        ((32, 14336, 4096), (64, 64, 128, 4, 3), 42.8),
        ((32, 4096, 14336), (32, 32, 512, 4, 3, 8, 4), 42.4),
        ((32, 1024, 4096), (16, 16, 512, 4, 4, 8, 4), 6.3),
        ((64, 4096, 4096), (64, 32, 128, 4, 6), 14.6),
        ((64, 14336, 4096), (64, 64, 128, 4, 3), 43.5),
        ((64, 4096, 14336), (64, 32, 128, 4, 6), 44.4),
        ((64, 1024, 4096), (32, 16, 512, 4, 4, 8, 4), 7.6),
        ((128, 4096, 4096), (64, 64, 128, 4, 6), 15.3),
        ((128, 14336, 4096), (64, 128, 64, 4, 4), 46.4),
        ((128, 4096, 14336), (64, 64, 128, 4, 6), 46.3),
        ((128, 1024, 4096), (32, 32, 512, 4, 3, 8, 4), 9.2),
        ((128, 3072, 768), (64, 64, 64, 4, 12, 4, 1, 2, 1), 5.4),
        ((128, 768, 3072), (32, 32, 256, 4, 4, 8, 4), 7.7),
        ((256, 4096, 4096), (64, 128, 64, 4, 8, 4, 1, 2, 1), 17.3),
        ((256, 4096, 4096), (64, 128, 64, 4, 8), 18.4),
        ((256, 14336, 4096), (128, 256, 64, 4, 4, 4, 1, 2, 0), 51.7),
        ((256, 14336, 4096), (128, 256, 64, 8, 4), 52.3),
        ((256, 4096, 14336), (64, 128, 64, 4, 8), 54.7),
        ((256, 1024, 4096), (64, 32, 128, 4, 6), 11.7),
        ((512, 4096, 4096), (128, 128, 64, 4, 6, 4, 1, 2, 1), 25.0),
        ((512, 4096, 4096), (128, 128, 64, 8, 6), 25.9),
        ((512, 14336, 4096), (128, 256, 64, 4, 4, 4, 1, 2, 0), 91.7),
        ((512, 14336, 4096), (128, 256, 64, 8, 3), 95.1),
        ((512, 4096, 14336), (128, 128, 64, 4, 6, 4, 1, 2, 1), 80.9),
        ((512, 1024, 4096), (64, 64, 128, 4, 6), 12.3),
    ),
    "k outside": (
        ((32, 4096, 4096), (64, 32, 128, 4, 6), 13.7),
        ((64, 4096, 4096), (64, 32, 128, 4, 6), 14.2),
        ((128, 4096, 4096), (64, 64, 128, 4, 6), 14.7),
        ((256, 4096, 4096), (64, 128, 128, 4, 4), 17.8),
        ((512, 4096, 4096), (128, 128, 64, 8, 6), 26.8),
    ),
}
"""Layout of the right operand -> rows, columns and terms; tiling, and microseconds by the profiler:
of the best, and beside workgroups that stay of those that do not. Of 128x14336x4096 tiles of 64x256
took 45.0, with nearly all registers."""


def _straight(bits: int, height: int, width: int, lines: int, warps: int) -> tuple[int, ...]:
    """The numbers of a tiling of weights that go straight to matrix units."""
    block = lines * warps * 64 * 8 // bits
    return (height, width, block, warps, 1, 8, warps, 0, 0, 0, 1)


MEASURED: dict[str, tuple[Tuned, ...]] = {
    "cuda:sm_90": (
        *(
            Tuned(
                "matmul",
                f"16 bits, k inside, k inside, computed, {kind}",
                sizes,
                _straight(int(kind[0]), *numbers),
                us,
            )
            for kind, entries in _STRAIGHT.items()
            for sizes, numbers, us in entries
        ),
        *(
            Tuned(
                "matmul",
                f"16 bits, k inside, k inside, computed, {kind}",
                (rows, 4096, 4096, 1),
                tiling,
                us,
            )
            for kind, times in _WEIGHTS.items()
            for rows, (tiling, us) in zip((1, 16, 4096), times, strict=True)
        ),
        *(
            Tuned("rows", form, sizes, _OTHER_ROW_TILINGS.get((form, sizes), tiling), us)
            for form, times in _ROW_TIMES.items()
            for (sizes, tiling), us in zip(_ROW_TILINGS.items(), times, strict=True)
        ),
        *(
            Tuned("rows", "arith.addf arith.addf, 1 read, 1 written", sizes, tiling, us)
            for sizes, (tiling, us) in _FEW_LONG_ROWS.items()
        ),
        *(
            Tuned("matmul", f"16 bits, k inside, {layout}", (*sizes, 1), tiling, us)
            for layout, entries in _SOME_ROWS.items()
            for sizes, tiling, us in entries
        ),
        Tuned("elementwise", "arithmetic, 16 bits, one result", (67108864,), (2, 1024, 4), 129.6),
        Tuned(
            "elementwise", "error function, 16 bits, one result", (67108864,), (2, 1024, 4), 130.0
        ),
        Tuned("elementwise", "sliced, 16 bits, one result", (117440512,), (1, 1024, 4), 230.5),
        Tuned("elementwise", "swapped, 16 bits, one result", (67108864,), (1, 2048, 8), 89.8),
        Tuned("transpose", "transposed, 16 bits, one result", (67108864,), (128, 64, 8), 138.8),
        Tuned("transpose", "transposed, 16 bits, one result", (25690112,), (64, 32, 4), 38.1),
        Tuned(
            "matmul",
            "16 bits, k inside, k inside",
            (4096, 4096, 4096, 1),
            (128, 256, 64, 8, 3, 16),
            189.3,
        ),
        Tuned(
            "matmul",
            "16 bits, k inside, k outside",
            (4096, 4096, 4096, 1),
            (128, 256, 64, 8, 3, 16),
            199.3,
        ),
        Tuned(
            "matmul",
            "16 bits, k inside, k inside",
            (8192, 28672, 8192, 1),
            (128, 256, 64, 8, 3, 16),
            5656.3,
        ),
        Tuned(
            "matmul",
            "16 bits, k inside, k inside",
            (8192, 3072, 768, 1),
            (128, 256, 64, 8, 3, 8),
            73.6,
        ),
        Tuned(
            "matmul",
            "16 bits, k inside, k outside",
            (4096, 1024, 512, 1),
            (128, 128, 64, 8, 3, 8),
            12.7,
        ),
        Tuned(
            "matmul", "16 bits, k inside, k inside", (512, 768, 768, 1), (64, 64, 128, 4, 3, 8), 7.0
        ),
        Tuned(
            "matmul",
            "16 bits, k inside, k inside",
            (6304, 768, 768, 3),
            (64, 256, 64, 4, 5, 8, 1, 2, 1),
            38.4,
        ),
        Tuned(
            "matmul",
            "16 bits, k inside, k inside",
            (6304, 768, 768, 1),
            (64, 128, 64, 4, 8, 8, 1, 3, 1),
            18.9,
        ),
        Tuned(
            "matmul",
            "16 bits, k inside, k inside",
            (6304, 3072, 768, 1),
            (64, 256, 64, 4, 5, 8, 1, 2, 1),
            65.8,
        ),
        Tuned(
            "matmul",
            "16 bits, k inside, k inside",
            (6304, 768, 3072, 1),
            (192, 128, 64, 4, 5, 8, 1, 3, 0),
            55.7,
        ),
        Tuned(
            "matmul",
            "16 bits, k inside, k inside",
            (4096, 768, 768, 3),
            (128, 128, 64, 4, 6, 8, 1, 2, 1),
            26.7,
        ),
        Tuned(
            "matmul",
            "16 bits, k inside, k inside",
            (4096, 768, 768, 1),
            (64, 128, 64, 4, 8, 8, 1, 3, 1),
            12.4,
        ),
        Tuned(
            "matmul",
            "16 bits, k inside, k inside",
            (4096, 3072, 768, 1),
            (128, 128, 64, 4, 6, 8, 1, 2, 1),
            41.6,
        ),
        Tuned(
            "matmul",
            "16 bits, k inside, k inside",
            (4096, 768, 3072, 1),
            (128, 256, 64, 4, 4, 8, 1, 2, 0),
            35.9,
        ),
        Tuned(
            "matmul",
            "16 bits, k inside, k inside",
            (1024, 4096, 4096, 1),
            (128, 256, 64, 4, 4, 4, 1, 2, 0),
            48.9,
        ),
        Tuned(
            "matmul",
            "16 bits, k inside, k inside",
            (1024, 1024, 4096, 2),
            (128, 128, 64, 4, 4, 8),
            27.8,
        ),
        Tuned(
            "matmul",
            "16 bits, k inside, k inside",
            (1024, 4096, 14336, 1),
            (128, 256, 64, 8, 3, 4),
            156.2,
        ),
        Tuned(
            "matmul",
            "16 bits, k inside, k inside",
            (16, 4096, 4096, 1),
            (16, 32, 512, 4, 3, 8, 4),
            14.1,
        ),
        Tuned(
            "matmul",
            "16 bits, k inside, k inside",
            (16, 1024, 4096, 2),
            (16, 16, 512, 4, 4, 8, 4),
            8.4,
        ),
        Tuned(
            "matmul",
            "16 bits, k inside, k inside",
            (16, 4096, 14336, 1),
            (16, 32, 512, 4, 3, 8, 4),
            42.0,
        ),
        Tuned(
            "matmul",
            "16 bits, k inside, k inside",
            (1, 4096, 4096, 1),
            (1, 2, 2048, 4, 1),
            12.5,
        ),
        Tuned(
            "matmul",
            "16 bits, k inside, k inside",
            (1, 1024, 4096, 1),
            (1, 2, 2048, 4, 1),
            4.7,
        ),
        Tuned(
            "matmul",
            "16 bits, k inside, k inside",
            (1, 14336, 4096, 1),
            (1, 2, 2048, 4, 1),
            39.1,
        ),
        Tuned(
            "matmul",
            "16 bits, k inside, k outside",
            (16, 4096, 4096, 1),
            (16, 32, 256, 4, 4, 8),
            13.9,
        ),
        Tuned(
            "matmul",
            "16 bits, k inside, k inside",
            (1, 4096, 14336, 1),
            (1, 2, 4096, 8, 1),
            39.6,
        ),
        Tuned(
            "matmul",
            "16 bits, k inside, k outside",
            (1, 14336, 4096, 1),
            (16, 128, 64, 4, 4, 8),
            42.9,
        ),
        Tuned(
            "matmul",
            "16 bits, k inside, k inside",
            (512, 512, 64, 64),
            (64, 128, 64, 4, 4, 8),
            19.3,
        ),
        Tuned(
            "matmul",
            "16 bits, k inside, k inside, 2 sums",
            (1024, 14336, 4096, 1),
            (128, 128, 64, 4, 4, 8, 1, 2, 0),
            311.2,
        ),
        Tuned(
            "matmul",
            "16 bits, k inside, k inside, 2 sums",
            (16, 14336, 4096, 1),
            (16, 32, 256, 4, 3, 8),
            83.7,
        ),
        Tuned(
            "matmul",
            "16 bits, k inside, k inside, 2 sums",
            (1, 14336, 4096, 1),
            (1, 4, 2048, 4, 1),
            78.4,
        ),
        Tuned("attention", "open", (1024, 1024, 64, 128), (64, 128, 4, 2, 0, 1), 84.2),
        Tuned("attention", "causal", (512, 512, 64, 96), (64, 64, 4, 2, 1, 1), 16.6),
        Tuned("attention", "causal", (4096, 4096, 128, 32), (128, 128, 8, 2, 1, 1), 248.0),
        Tuned("attention", "causal", (1024, 1024, 128, 32), (128, 128, 8, 2, 1, 1), 21.7),
        Tuned("attention", "open", (1024, 1024, 128, 64), (128, 128, 8, 2, 0, 1), 64.2),
        # What cannot load its image once takes the next of the same sizes.
        Tuned(
            "convolution",
            "channels inside, filter too",
            (100352, 64, 64, 9),
            (128, 64, 64, 4, 1, 8, 1, 2, 0, 1),
            19.2,
        ),
        Tuned(
            "convolution",
            "channels inside",
            (401408, 64, 3, 49),
            (256, 64, 64, 4, 1, 8, 1, 3, 0, 1),
            30.2,
        ),
        *(
            Tuned("convolution", "channels inside, filter too", sizes, tiling, us)
            for sizes, (tiling, us) in _CONVOLUTIONS.items()
        ),
        Tuned("convolution", "channels inside", (401408, 64, 3, 49), (128, 64, 32, 4, 4, 8), 53.7),
        Tuned("convolution", "channels inside", (100352, 64, 64, 1), (128, 64, 64, 4, 4, 8), 12.0),
        Tuned("convolution", "channels inside", (100352, 64, 64, 9), (128, 64, 64, 4, 3, 8), 27.8),
        Tuned("convolution", "channels inside", (100352, 64, 256, 1), (128, 64, 64, 4, 3, 8), 27.8),
        Tuned(
            "convolution", "channels inside", (100352, 128, 256, 1), (128, 64, 64, 4, 3, 8), 34.9
        ),
        Tuned("convolution", "channels inside", (100352, 256, 64, 1), (64, 128, 64, 4, 4, 8), 28.0),
        Tuned(
            "convolution", "channels inside", (25088, 128, 128, 9), (128, 128, 64, 4, 3, 8), 18.0
        ),
        Tuned("convolution", "channels inside", (25088, 128, 512, 1), (128, 64, 64, 4, 3, 8), 16.0),
        Tuned(
            "convolution", "channels inside", (25088, 256, 512, 1), (128, 128, 64, 8, 3, 8), 23.7
        ),
        Tuned(
            "convolution", "channels inside", (25088, 512, 128, 1), (128, 128, 64, 4, 3, 8), 20.4
        ),
        Tuned("convolution", "channels inside", (6272, 256, 256, 9), (128, 128, 64, 4, 3, 8), 19.4),
        Tuned("convolution", "channels inside", (6272, 256, 1024, 1), (64, 128, 64, 4, 4, 8), 13.0),
        Tuned(
            "convolution", "channels inside", (6272, 512, 1024, 1), (128, 128, 64, 4, 3, 8), 17.5
        ),
        Tuned(
            "convolution", "channels inside", (6272, 1024, 256, 1), (128, 128, 64, 8, 3, 8), 14.8
        ),
        Tuned("convolution", "channels inside", (1568, 512, 512, 9), (64, 128, 128, 4, 4, 8), 20.8),
        Tuned(
            "convolution", "channels inside", (1568, 512, 2048, 1), (64, 128, 128, 4, 3, 8), 10.6
        ),
        Tuned(
            "convolution", "channels inside", (1568, 2048, 512, 1), (128, 128, 64, 4, 3, 8), 12.2
        ),
    ),
}
"""Target -> the fastest tiling of each kernel that was measured on one."""

BESIDE: dict[str, tuple[Beside, ...]] = {
    "cuda:sm_90": (
        Beside("arith.addf arith.maximumf, 1 read, 1 written", (16384, 4096), 160, 66),
        Beside("arith.addf arith.maximumf, 1 read, 1 written", (16384, 1024), 38, 17),
        Beside("arith.addf arith.maximumf, 1 read, 1 written", (2048, 32768), 158, 86),
        Beside("arith.addf arith.maximumf, 2 read, 1 written", (65536, 512), 78, 34),
        Beside("arith.addf, 1 read, 1 written", (16384, 4096), 85, 66),
        Beside("arith.addf, 2 read, 2 written", (16384, 4096), 189, 132),
        Beside("arith.addf, 2 read, 2 written", (16384, 8192), 387, 259),
        # An NVIDIA H100 80GB HBM3, 2026-11-21; those above are of an H200.
        Beside("arith.addf arith.addf, 1 read, 1 written", (16384, 1024), 24.7, 24.1),
        Beside("arith.addf arith.addf, 1 read, 1 written", (16384, 4096), 101.6, 90.5),
        Beside("arith.addf arith.addf, 1 read, 1 written", (16384, 8192), 216.6, 177.7),
        Beside("arith.addf arith.addf, 1 read, 1 written", (2048, 32768), 98.9, 95.4),
        Beside("arithmetic, 16 bits, one result", (67108864,), 159.4, 129.6),
        Beside("arithmetic, 16 bits, one result", (4194304,), 11.2, 5.1),
        Beside("arithmetic, 16 bits, several results", (67108864,), 178.7, 180.5),
        Beside("functions, 16 bits, one result", (67108864,), 159.8, 130.6),
        Beside("functions, 16 bits, one result", (14680064,), 36.7, 27.9),
        Beside("functions, 16 bits, one result", (4194304,), 11.6, 5.6),
        Beside("functions, 16 bits, several results", (67108864,), 178.7, 180.7),
        Beside("error function, 16 bits, one result", (67108864,), 215.8, 129.6),
        Beside("error function, 16 bits, one result", (8388608,), 29.2, 17.5),
        Beside("error function, 16 bits, several results", (67108864,), 218.9, 178.6),
        Beside("sliced, 16 bits, one result", (117440512,), 278.6, 230.5),
        Beside("sliced, 16 bits, one result", (4194304,), 11.3, 5.1),
        Beside("swapped, 16 bits, one result", (67108864,), 159.0, 92.4),
        Beside("swapped, 16 bits, one result", (4194304,), 11.5, 4.6),
        Beside("permuted, 16 bits, one result", (67108864,), 316.6, 89.4),
        Beside("permuted, 16 bits, one result", (8388608,), 40.5, 7.9),
        Beside("gathered, 16 bits, one result", (67108864,), 159.7, 93.0),
        Beside("gathered, 16 bits, one result", (2097152,), 6.4, 3.6),
        Beside("transposed, 16 bits, one result", (67108864,), 144.4, 133.4),
        Beside("transposed, 16 bits, one result", (25690112,), 45.6, 31.8),
        Beside("transposed, 16 bits, one result", (4194304,), 10.1, 5.1),
        Beside("arithmetic, 32 bits, one result", (33554432,), 159.6, 129.9),
        Beside("functions, 32 bits, one result", (33554432,), 159.2, 131.2),
        Beside("error function, 32 bits, one result", (33554432,), 159.9, 129.8),
        Beside("sliced, 32 bits, one result", (33554432,), 159.7, 132.5),
        Beside("swapped, 32 bits, one result", (33554432,), 159.5, 95.6),
        Beside("permuted, 32 bits, one result", (33554432,), 158.9, 90.8),
        Beside("transposed, 32 bits, one result", (33554432,), 138.8, 135.0),
    ),
}
"""Target -> kernels and IREE's code, measured in one run; of rows an NVIDIA H200, 2026-11-21."""
