"""Convolutions on Hopper whose tiles load the image once, for all places of the window.

As in `hopper_products` one workgroup stays on each multiprocessor, four warps load and two groups
of four others compute; the filter stays, too. For a tile all pixels are loaded that its windows
touch: they lie side by side. Each place of a window reads its rows from there, straight into the
registers of the products, and zeros for those outside of the image.
"""

import dataclasses

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier

from mlirfuse.kernels.device import matmul_sm90
from mlirfuse.kernels.device.matmul_sm90 import BLOCK_K as BLOCK
from mlirfuse.kernels.device.matmul_sm90 import MMA_M as HIGH
from mlirfuse.kernels.device.matmul_sm90 import WARPGROUP_WARPS as WARPS

GROUPS = gl.constexpr(2)
"""Groups of warps that compute."""

HEIGHT = gl.constexpr(128)
"""Rows of a tile, of both groups together."""

FEW = gl.constexpr(16)
"""Pixels that are loaded at a time."""


@dataclasses.dataclass(frozen=True)
class Shape:
    """What is computed, and by which tiles.

    Attributes:
      rows: places of the result in all images.
      columns: output channels, a multiple of the width.
      pixels: of all images.
      moves: pixels from the first place of a window to each of its places.
      masked: whether some places of some windows are outside of the image.
      width: columns of a tile.
      reach: pixels that the windows of a tile touch, a multiple of `FEW`.
      places: for the pixels of tiles.
      programs: workgroups, a multiple of the tiles along the columns.
    """

    rows: int
    columns: int
    pixels: int
    moves: tuple
    masked: bool
    width: int
    reach: int
    places: int
    programs: int


# Triton keeps what it has compiled by the text of such functions, not by that of a class.
@gluon.constexpr_function
def shaped(*numbers):
    """A `Shape`, for a kernel's text."""
    return Shape(*numbers)


@gluon.constexpr_function
def _columns(shape):
    """Tiles along the columns."""
    return shape.columns // shape.width


@gluon.constexpr_function
def _tiles(shape):
    """All tiles."""
    return -(-shape.rows // HEIGHT.value) * (shape.columns // shape.width)


@gluon.constexpr_function
def _read():
    """The layout of the numbers of rows: as `ldmatrix` wants addresses of 16 rows, twice."""
    lanes = [[1, 0], [2, 0], [4, 0], [8, 0], [0, 0]]
    return gl.DistributedLinearLayout([], lanes, [[16, 0], [32, 0]], [], [64, 1])


@gluon.constexpr_function
def _constraints(shape):
    """What the operands of `_instructions` are: sums in place, two numbers, addresses."""
    count = shape.width // 2
    return ",".join(["=f"] * count + [str(n) for n in range(count)] + ["r"] * 8)


@gluon.constexpr_function
def _instructions(shape, kind):
    """The instructions that add the products of a group's rows, for all places of a window.

    While the products of a place run, the rows of the next one are read into other registers.
    """
    count = shape.width // 2
    names = ("first", "inside", "image", "done", "zeros", "filter", "loaded", "fresh")
    given = {name: f"${2 * count + n}" for n, name in enumerate(names)}
    sums = ", ".join(f"${n}" for n in range(count))
    steps = BLOCK.value // 16
    lines = [
        ".reg .b32 half, row, seven, far, none, at, bit, low, high;",
        f".reg .b32 a<{2 * 4 * steps}>;",
        ".reg .b64 block;",
        ".reg .pred held, some, one, fresh;",
        "mov.u32 half, %laneid;",
        "setp.eq.u32 one, half, 0;",
        "and.b32 half, half, 16;",
        f"setp.ne.u32 fresh, {given['fresh']}, 0;",
        # Rows of 128 bytes in groups of eight, in the order of 128 bytes.
        f"mov.b32 high, {(1 << 30) | (1024 >> 4)};",
    ]

    def registers(number, step):
        start = (number % 2 * steps + step) * 4
        return ", ".join(f"a{start + n}" for n in range(4))

    def read(number):
        found = [
            f"add.s32 row, {given['first']}, {shape.moves[number]};",
            "and.b32 seven, row, 7;",
            f"mad.lo.u32 far, row, 128, {given['image']};",
        ]
        if shape.masked:
            found += [
                f"mad.lo.u32 none, seven, 128, {given['zeros']};",
                f"and.b32 bit, {given['inside']}, {1 << number};",
                "setp.ne.u32 held, bit, 0;",
                "selp.b32 far, far, none, held;",
            ]
        found += ["mad.lo.u32 far, seven, 16, far;", "xor.b32 far, far, half;"]
        for step in range(steps):
            found += [
                f"xor.b32 at, far, {32 * step};",
                f"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{{registers(number, step)}}}, [at];",
            ]
        return found

    def multiplied(number):
        found = [
            # Of the first tile the filter may be on its way.
            "{",
            "@!fresh bra.uni ready;",
            "again:",
            f"mbarrier.try_wait.parity.shared.b64 some, [{given['loaded']}+{8 * number}], 0;",
            "@!some bra.uni again;",
            "fence.proxy.async.shared::cta;",
            "ready:",
            "}",
            f"add.u32 low, {given['filter']}, {number * shape.width * 128};",
            "shr.u32 low, low, 4;",
            "or.b32 low, low, 65536;",
            "wgmma.fence.sync.aligned;",
        ]
        for step in range(steps):
            found += [
                "mov.b64 block, {low, high};",
                f"wgmma.mma_async.sync.aligned.m64n{shape.width}k16.f32.{kind}.{kind} "
                f"{{{sums}}}, {{{registers(number, step)}}}, block, 1, 1, 1, 0;",
                "add.u32 low, low, 2;",
            ]
        return [*found, "wgmma.commit_group.sync.aligned;"]

    lines += read(0)
    for number in range(len(shape.moves)):
        lines += multiplied(number)
        if number:
            lines.append("wgmma.wait_group.sync.aligned 1;")
        if number + 1 < len(shape.moves):
            lines += read(number + 1)
    lines.append("wgmma.wait_group.sync.aligned 0;")
    lines.append(f"@one mbarrier.arrive.shared.b64 _, [{given['done']}];")
    return "{\n" + "\n".join(lines) + "\n}"


@gluon.jit
def windows(
    image,
    weight,
    others,
    begin: gl.constexpr,
    epilogue: gl.constexpr,
    shape: gl.constexpr,
):
    """Computes all tiles of a workgroup.

    Args:
      image: pointer to the images, `BLOCK` channels last.
      weight: pointer to the filter, output channels first, then places, then channels.
      others: what the epilogue is given beside.
      begin: a function from rows of the result to where their windows begin in the image, which
        must grow with the rows, and a number whose bit `n` says whether place `n` is in the image.
      epilogue: as of `hopper_products.products`.
      shape: see `Shape`.
    """
    dtype: gl.constexpr = image.dtype.element_ty
    few: gl.constexpr = gl.NVMMASharedLayout.get_default_for([FEW, BLOCK], dtype)
    wide: gl.constexpr = gl.NVMMASharedLayout.get_default_for([shape.width, BLOCK], dtype)
    pieces: gl.constexpr = shape.places * (shape.reach // FEW)
    count: gl.constexpr = shape.places
    filters: gl.constexpr = len(shape.moves)
    blocks = gl.allocate_shared_memory(dtype, [pieces, FEW, BLOCK], few)
    held = gl.allocate_shared_memory(dtype, [filters, shape.width, BLOCK], wide)
    zeros = gl.allocate_shared_memory(dtype, [FEW, BLOCK], few)
    zeros.store(gl.zeros([FEW, BLOCK], dtype, matmul_sm90.load_layout()))
    loaded = mbarrier.allocate_mbarrier(batch=count)
    free = mbarrier.allocate_mbarrier(batch=count)
    ready = mbarrier.allocate_mbarrier(batch=filters)
    for place in gl.static_range(count):
        mbarrier.init(loaded.index(place), count=WARPS * 32)
        mbarrier.init(free.index(place), count=WARPS * GROUPS)
    for place in gl.static_range(filters):
        mbarrier.init(ready.index(place), count=WARPS * 32)
    fence_async_shared()
    places = (blocks, held, zeros)
    barriers = (loaded, free, ready)
    gl.warp_specialize(
        [
            (_compute, (places, barriers, others, begin, epilogue, 0, shape)),
            (_compute, (places, barriers, others, begin, epilogue, 1, shape)),
            (_load, (image, weight, places, barriers, begin, shape)),
        ],
        [WARPS, WARPS],
        matmul_sm90.registers(GROUPS),
    )


@gluon.jit
def _first(row, begin: gl.constexpr, shape: gl.constexpr):
    """The first pixel of the windows of rows, and which places of them are in the image."""
    start, inside = begin(gl.minimum(row, shape.rows - 1))
    return start // BLOCK, inside


@gluon.jit
def _load(image, weight, places, barriers, begin: gl.constexpr, shape: gl.constexpr):
    """Loads the pixels of all tiles into places as they become free."""
    blocks = places[0]
    held = places[1]
    loaded, free, ready = barriers
    columns: gl.constexpr = _columns(shape)
    depth: gl.constexpr = len(shape.moves) * BLOCK
    pieces: gl.constexpr = shape.reach // FEW
    copied: gl.constexpr = matmul_sm90.load_layout()
    pixel = gl.arange(0, FEW, layout=gl.SliceLayout(1, copied))[:, None]
    column = gl.arange(0, shape.width, layout=gl.SliceLayout(1, copied))[:, None]
    column = matmul_sm90.permuted_columns(column)
    term = gl.arange(0, BLOCK, layout=gl.SliceLayout(0, copied))[None, :]
    place = 0
    phase = 1
    # The filter is loaded behind the pixels of the first tile.
    moves = len(shape.moves)
    for number in range(gl.program_id(0), _tiles(shape), shape.programs):
        first = _first(number // columns * HEIGHT, begin, shape)[0]
        right = weight + number % columns * (shape.width * depth)
        mbarrier.wait(free.index(place), phase)
        for piece in range(pieces):
            there = first + piece * FEW + pixel
            there = gl.minimum(gl.maximum(there, 0), shape.pixels - 1)
            pointers = image + (there * BLOCK + term)
            async_copy.async_load(blocks.index(place * pieces + piece), pointers)
        async_copy.mbarrier_arrive(loaded.index(place), increment_count=False)
        place += 1
        if place == shape.places:
            place = 0
            phase ^= 1
        for move in range(moves):
            pointers = right + move * BLOCK + (column * depth + term)
            async_copy.async_load(held.index(move), pointers)
            async_copy.mbarrier_arrive(ready.index(move), increment_count=False)
        moves = 0
    async_copy.wait_group(0)


@gluon.jit
def _compute(
    places,
    barriers,
    others,
    begin: gl.constexpr,
    epilogue: gl.constexpr,
    group: gl.constexpr,
    shape: gl.constexpr,
):
    """Computes the rows of a group in all tiles."""
    blocks, held, zeros = places
    loaded, free, ready = barriers
    columns: gl.constexpr = _columns(shape)
    pieces: gl.constexpr = shape.reach // FEW
    summed: gl.constexpr = matmul_sm90.accumulator_layout(shape.width)
    kind: gl.constexpr = "bf16" if blocks.dtype == gl.bfloat16 else "f16"
    row = gl.arange(0, HIGH, layout=gl.SliceLayout(1, _read()))[:, None] + group * HIGH
    turn = 0
    fresh = 1
    for number in range(gl.program_id(0), _tiles(shape), shape.programs):
        start = number // columns * HEIGHT
        first, inside = _first(start + row, begin, shape)
        first -= _first(start, begin, shape)[0]
        if not shape.masked:
            inside = first
        total = gl.zeros([HIGH, shape.width], gl.float32, summed)
        place = turn % shape.places
        mbarrier.wait(loaded.index(place), (turn // shape.places) & 1)
        total = gl.inline_asm(
            _instructions(shape, kind),
            _constraints(shape),
            [
                total,
                first,
                inside,
                blocks.index(place * pieces),
                free.index(place),
                zeros,
                held,
                ready,
                fresh,
            ],
            gl.distributed_type(gl.float32, [HIGH, shape.width], summed),
            is_pure=False,
        )
        turn += 1  # noqa: SIM113
        fresh = 0
        there = start + group * HIGH
        column = number % columns * shape.width
        matmul_sm90.run_epilogue(total, there, column, 0, others, epilogue, 1, shape.width)
