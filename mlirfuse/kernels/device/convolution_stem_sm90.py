"""Convolutions of few channels on Hopper: lines of the image lie in workgroup memory as they are.

Of few channels a line of a window, all its places and channels, is one run of elements. It is read
as pairs, each a register of the products, so that only the pairs of all lines together are filled
up to whole matrix instructions. One workgroup stays on each multiprocessor; four warps load the
lines of a tile, groups of four others compute blocks of 64 rows of it in turns.
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

PIECE = gl.constexpr(512)
"""Elements in which workgroup memory is counted."""

GROUPS = gl.constexpr(3)
"""Groups of warps that compute."""

PLACES = gl.constexpr(3)
"""For the lines of tiles."""

CHUNK = gl.constexpr(16)
"""Bytes that are loaded at once."""


@dataclasses.dataclass(frozen=True)
class Shape:
    """What is computed, and by which tiles.

    Attributes:
      columns: output channels, 64 or 128.
      height: lines of a result.
      width: places of such a line.
      tall: lines of an image.
      line: elements of a line, whose bytes are a multiple of `CHUNK`.
      step: elements from one window to the next; even.
      stride: lines from one line of the result to the next.
      low: lines of zeros before the image.
      before: elements that are read before a line; even.
      lead: of the elements that are read for a window, the first ones that are none of it, 0 or 1.
      inside: elements of a line of a window.
      lines: of a window.
      together: lines of a result in a tile.
      tiles: all of them.
      left: bytes of workgroup memory before a line of the image.
      pitch: bytes from one line to the next in it.
      pieces: of memory that a tile has; one line more, of which pairs behind the last are read.
      programs: workgroups.
    """

    columns: int
    height: int
    width: int
    tall: int
    line: int
    step: int
    stride: int
    low: int
    before: int
    lead: int
    inside: int
    lines: int
    together: int
    tiles: int
    left: int
    pitch: int
    pieces: int
    programs: int


# Triton keeps what it has compiled by the text of such functions, not by that of a class.
@gluon.constexpr_function
def shaped(*numbers):
    """A `Shape`, for a kernel's text."""
    return Shape(*numbers)


@gluon.constexpr_function
def _pairs(shape):
    """Pairs of a line of a window."""
    return -(-(shape.lead + shape.inside) // 2)


@gluon.constexpr_function
def _steps(shape):
    """Matrix instructions of a block: sixteen terms each."""
    return -(-shape.lines * _pairs(shape) // 8)


@gluon.constexpr_function
def _held(shape):
    """Lines of the image that the windows of a tile touch."""
    return (shape.together - 1) * shape.stride + shape.lines


@gluon.constexpr_function
def _blocks(shape):
    """Blocks of rows of a tile."""
    return shape.together * shape.width // HIGH.value


@gluon.constexpr_function
def _read():
    """The layout of rows and pairs as a thread holds them for a matrix instruction."""
    lanes = [[0, 1], [0, 2], [1, 0], [2, 0], [4, 0]]
    return gl.DistributedLinearLayout([[8, 0]], lanes, [[16, 0], [32, 0]], [], [64, 4])


@gluon.constexpr_function
def _flat():
    """A layout of workgroup memory as it is."""
    return gl.SwizzledSharedLayout(1, 1, 1, [0])


@gluon.constexpr_function
def _constraints(shape):
    """What the operands of `_products` are: sums in place, four addresses."""
    count = shape.columns // 2
    return ",".join(["=f"] * count + [str(n) for n in range(count)] + ["r"] * 4)


@gluon.constexpr_function
def _belonging(shape, first):
    """Masks of the four pairs from one on: which halves of them are elements of the window."""
    pairs = _pairs(shape)
    found = []
    for pair in range(first, first + 4):
        mask = 0
        for half in range(2):
            element = pair % pairs * 2 + half - shape.lead
            if pair < shape.lines * pairs and 0 <= element < shape.inside:
                mask |= 0xFFFF << (16 * half)
        found.append(mask)
    return tuple(found)


@gluon.constexpr_function
def _products(shape, kind):
    """The instructions that add the products of a block of rows.

    Their operands are the sums in place, where two rows begin, in what memory, and the filter.
    """
    count = shape.columns // 2
    sums = ", ".join(f"${n}" for n in range(count))
    place, weights = f"${2 * count + 2}", f"${2 * count + 3}"
    pairs, steps = _pairs(shape), _steps(shape)
    beyond = shape.pitch - 4 * pairs
    firsts = range(0, 8 * steps, 4)
    whole = (0xFFFFFFFF,) * 4
    masks = list({_belonging(shape, first): None for first in firsts})
    lines = [
        f".reg .b32 a<{4 * steps}>, from<8>, mask<{len(masks)}>, lane, low, high;",
        ".reg .b64 block;",
        ".reg .pred later;",
        "mov.u32 lane, %laneid;",
        "and.b32 lane, lane, 3;",
        f"mov.b32 high, {(1 << 30) | (1024 >> 4)};",
        f"shr.u32 low, {weights}, 4;",
        "or.b32 low, low, 65536;",
    ]
    for n in range(2):
        lines.append(f"add.u32 from{4 * n}, ${2 * count + n}, {place};")
    for t in range(1, 4):
        # Where a line of the window ends before the pair of this thread, the next one begins.
        lines.append(f"setp.ge.u32 later, lane, {t};")
        for n in range(2):
            lines += [
                f"mov.b32 from{4 * n + t}, from{4 * n};",
                f"@later add.u32 from{4 * n + t}, from{4 * n + t}, {beyond};",
            ]
    for number, mask in enumerate(masks):
        lines.append(f"mov.b32 mask{number}, {mask[0]};")
        for t in range(1, 4):
            lines.append(f"setp.ge.u32 later, lane, {t};")
            lines.append(f"selp.b32 mask{number}, {mask[t]}, mask{number}, later;")
    for first in firsts:
        line = first // pairs
        ends = (line + 1) * pairs - first
        offset = 4 * first + line * beyond
        mask = _belonging(shape, first)
        for n in range(2):
            # Rows first, then the other half of the terms.
            register = f"a{first // 2 + n}"
            start = f"from{4 * n + (ends if ends < 4 else 0)}"
            lines.append(f"ld.shared.b32 {register}, [{start}+{offset}];")
            if mask != whole:
                lines.append(f"and.b32 {register}, {register}, mask{masks.index(mask)};")
    lines.append("wgmma.fence.sync.aligned;")
    for step in range(steps):
        registers = ", ".join(f"a{4 * step + n}" for n in range(4))
        lines += [
            "mov.b64 block, {low, high};",
            f"wgmma.mma_async.sync.aligned.m64n{shape.columns}k16.f32.{kind}.{kind} "
            f"{{{sums}}}, {{{registers}}}, block, 1, 1, 1, 0;",
            # Blocks of 64 terms of all columns follow each other.
            f"add.u32 low, low, {2 if step % 4 < 3 else shape.columns * 8 - 6};",
        ]
    lines += ["wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;"]
    return "{\n" + "\n".join(lines) + "\n}"


@gluon.constexpr_function
def _copies(shape):
    """The instructions that start to load the lines of a tile.

    Their operands are where it is put, where it lies, and the number of its first line.
    """
    chunks = 2 * shape.line // CHUNK.value
    count = _held(shape) * chunks
    lines = [
        ".reg .b32 thread, chunk, row, column, to, number, size;",
        ".reg .b64 from, far;",
        ".reg .pred held, some;",
        "mov.u32 thread, %tid.x;",
        f"and.b32 thread, thread, {WARPS.value * 32 - 1};",
    ]
    for turn in range(-(-count // (WARPS.value * 32))):
        lines += [
            f"add.u32 chunk, thread, {turn * WARPS.value * 32};",
            f"setp.lt.u32 some, chunk, {count};",
            f"div.u32 row, chunk, {chunks};",
            f"mul.lo.u32 column, row, {chunks};",
            "sub.u32 column, chunk, column;",
            "shl.b32 column, column, 4;",
            f"mad.lo.u32 to, row, {shape.pitch}, $0;",
            "add.u32 to, to, column;",
            "cvt.u64.u32 far, column;",
            f"mad.wide.u32 from, row, {2 * shape.line}, far;",
            "add.u64 from, from, $1;",
            "add.u32 number, row, $2;",
            f"setp.lt.u32 held, number, {shape.tall};",
            "selp.b32 size, 16, 0, held;",
            f"@some cp.async.cg.shared.global [to+{shape.left}], [from], 16, size;",
        ]
    return "{\n" + "\n".join(lines) + "\n}"


@gluon.jit
def lines(image, weight, others, at: gl.constexpr, epilogue: gl.constexpr, shape: gl.constexpr):
    """Computes all tiles of a workgroup.

    Args:
      image: pointer to the images, channels last.
      weight: pointer to the filter.
      others: what the epilogue is given beside.
      at: a function from a line of a window, an element of it, and a column, to where their number
        lies in the filter.
      epilogue: as of `hopper_products.products`.
      shape: see `Shape`.
    """
    dtype: gl.constexpr = image.dtype.element_ty
    pieces: gl.constexpr = shape.pieces
    deep: gl.constexpr = (_steps(shape) + 3) // 4
    wide: gl.constexpr = gl.NVMMASharedLayout.get_default_for([shape.columns, BLOCK], dtype)
    held = gl.allocate_shared_memory(dtype, [PLACES * pieces, PIECE], _flat())
    filters = gl.allocate_shared_memory(dtype, [deep, shape.columns, BLOCK], wide)
    loaded = mbarrier.allocate_mbarrier(batch=PLACES)
    free = mbarrier.allocate_mbarrier(batch=PLACES)
    ready = mbarrier.allocate_mbarrier()
    mbarrier.init(ready, count=WARPS)
    count: gl.constexpr = PLACES
    for place in gl.static_range(count):
        mbarrier.init(loaded.index(place), count=WARPS * 32)
        mbarrier.init(free.index(place), count=WARPS * GROUPS)
    nothing = gl.zeros([PIECE], dtype, gl.BlockedLayout([4], [32], [4], [0]))
    for piece in range(PLACES * pieces):
        held.index(piece).store(nothing)
    fence_async_shared()
    places = (held, filters)
    barriers = (loaded, free, ready)
    gl.warp_specialize(
        [
            (_compute, (weight, places, barriers, others, at, epilogue, 0, shape)),
            (_compute, (weight, places, barriers, others, at, epilogue, 1, shape)),
            (_compute, (weight, places, barriers, others, at, epilogue, 2, shape)),
            (_load, (image, places, barriers, shape)),
        ],
        [WARPS, WARPS, WARPS],
        matmul_sm90.registers(GROUPS),
    )


@gluon.jit
def _load(image, places, barriers, shape: gl.constexpr):
    """Loads the lines of all tiles into places as they become free."""
    held = places[0]
    loaded, free, _ = barriers
    per_image: gl.constexpr = shape.height // shape.together
    turn = 0
    # Triton knows no `enumerate`.
    for number in range(gl.program_id(0), shape.tiles, shape.programs):
        first = number % per_image * (shape.together * shape.stride) - shape.low
        lies = image + (number // per_image * shape.tall + first) * shape.line
        place = turn % PLACES
        mbarrier.wait(free.index(place), ((turn // PLACES) & 1) ^ 1)
        gl.inline_asm(
            _copies(shape),
            "r,l,r",
            [held.index(place * shape.pieces), lies, first],
            is_pure=False,
        )
        async_copy.mbarrier_arrive(loaded.index(place), increment_count=False)
        turn += 1  # noqa: SIM113
    async_copy.wait_group(0)


@gluon.jit
def _filter(weight, filters, at: gl.constexpr, shape: gl.constexpr):
    """Brings the filter into the order of the pairs."""
    pairs: gl.constexpr = _pairs(shape)
    layout: gl.constexpr = gl.BlockedLayout([8, 1], [8, 4], [1, 4], [0, 1])
    deep: gl.constexpr = (_steps(shape) + 3) // 4
    column = gl.arange(0, shape.columns, layout=gl.SliceLayout(1, layout))[:, None]
    column = matmul_sm90.permuted_columns(column)
    for block in range(deep):
        term = block * BLOCK + gl.arange(0, BLOCK, layout=gl.SliceLayout(0, layout))[None, :]
        line = term // (2 * pairs)
        element = term % (2 * pairs) - shape.lead
        there = (element >= 0) & (element < shape.inside) & (line < shape.lines) & (column >= 0)
        numbers = gl.load(weight + at(line, element, column), mask=there, other=0)
        filters.index(block).store(numbers)
    fence_async_shared()


ARRIVED = gl.constexpr(
    "{ .reg .b32 lane; .reg .pred one; mov.u32 lane, %laneid; setp.eq.u32 one, lane, 0;"
    " bar.warp.sync 0xffffffff; @one mbarrier.arrive.shared.b64 _, [$0]; }"
)
"""The instructions by which each warp says that it is done."""


@gluon.jit
def _compute(
    weight,
    places,
    barriers,
    others,
    at: gl.constexpr,
    epilogue: gl.constexpr,
    group: gl.constexpr,
    shape: gl.constexpr,
):
    """Computes blocks of all tiles, in turns with the other groups."""
    held, filters = places
    loaded, free, ready = barriers
    blocks: gl.constexpr = _blocks(shape)
    summed: gl.constexpr = matmul_sm90.accumulator_layout(shape.columns)
    kind: gl.constexpr = "bf16" if filters.dtype == gl.bfloat16 else "f16"
    row = gl.arange(0, HIGH, layout=gl.SliceLayout(1, _read()))[:, None]
    pair = gl.arange(0, 4, layout=gl.SliceLayout(0, _read()))[None, :]
    if group == 0:
        _filter(weight, filters, at, shape)
        gl.inline_asm(ARRIVED, "r", [ready], is_pure=False)
    mbarrier.wait(ready, 0)
    fence_async_shared()
    turn = 0
    for number in range(gl.program_id(0), shape.tiles, shape.programs):
        place = turn % PLACES
        mbarrier.wait(loaded.index(place), (turn // PLACES) & 1)
        first = (group + GROUPS * blocks - turn % GROUPS * blocks) % GROUPS
        for block in range(first, blocks, GROUPS):
            there = block * HIGH + row
            start = there // shape.width * (shape.stride * shape.pitch)
            start += there % shape.width * (2 * shape.step)
            start += pair * 4 + (shape.left - 2 * shape.before)
            total = gl.zeros([HIGH, shape.columns], gl.float32, summed)
            total = gl.inline_asm(
                _products(shape, kind),
                _constraints(shape),
                [total, start, held.index(place * shape.pieces), filters],
                gl.distributed_type(gl.float32, [HIGH, shape.columns], summed),
                is_pure=False,
            )
            begin = number * (blocks * HIGH) + block * HIGH
            matmul_sm90.run_epilogue(total, begin, 0, 0, others, epilogue, 1, shape.columns)
        gl.inline_asm(ARRIVED, "r", [free.index(place)], is_pure=False)
        turn += 1  # noqa: SIM113
