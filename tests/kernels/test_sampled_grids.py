"""Images sampled at computed places, as by `grid_sample`: one kernel, in Triton's interpreter."""

import numpy as np
import pytest
from iree.compiler import ir

from helpers.kernel_runner import close, draw, needs_triton, planned, run

IMAGES, CHANNELS, HEIGHT, WIDTH = 2, 3, 7, 9
ROWS, COLUMNS = 4, 5
POINT, FLAT = f"{IMAGES}x{ROWS}x{COLUMNS}", f"{IMAGES}x{ROWS * COLUMNS}"
RESULT = f"{IMAGES}x{CHANNELS}x{ROWS}x{COLUMNS}"
GATHERED = f"{IMAGES}x{CHANNELS}x{ROWS * COLUMNS}"
PIXELS = f"{IMAGES}x{CHANNELS}x{HEIGHT * WIDTH}"

MAPS = """
#p = affine_map<(n, h, w) -> (n, h, w)>
#i = affine_map<(n, c, p) -> (n, p)>
#g = affine_map<(n, c, p) -> (n, c, p)>
#s = affine_map<(n, c, h, w) -> (n, h, w)>
#r = affine_map<(n, c, h, w) -> (n, c, h, w)>
#k = affine_map<(n, c, h, w) -> (n, c)>
"""


class Text:
    """The ops of a function, each value a tensor."""

    def __init__(self):
        self.lines = []

    def op(self, shape, kind, body, *operands, own="#p"):
        """A generic; `body` reads %a0, %a1, ... and yields %y. Operands are (name, type, map)."""
        name = f"%v{len(self.lines)}"
        names = ", ".join(n for n, _, _ in operands)
        types = ", ".join(t for _, t, _ in operands)
        read = "".join(f"{m}, " for _, _, m in operands)
        loops = ", ".join(['"parallel"'] * len(shape.split("x")))
        given = "".join(
            f"%a{n}: {t.rsplit('x', 1)[1][:-1]}, " for n, (_, t, _) in enumerate(operands)
        )
        made = f"tensor<{shape}x{kind}>"
        self.lines.append(f"""
  {name}e = tensor.empty() : {made}
  {name} = linalg.generic {{indexing_maps = [{read}{own}], iterator_types = [{loops}]}}
      ins({names} : {types}) outs({name}e : {made}) {{
  ^bb0({given}%o: {kind}):
    {body}
    linalg.yield %y : {kind}
  }} -> {made}""")
        return name, made, own

    def reshaped(self, value, name, groups, shape, kind):
        """A `tensor.collapse_shape`, or a `tensor.expand_shape`."""
        made, to = f"%v{len(self.lines)}", f"tensor<{shape}x{kind}>"
        sizes = f" output_shape [{shape.replace('x', ', ')}]" if name == "expand" else ""
        self.lines.append(
            f"  {made} = tensor.{name}_shape {value[0]} {groups}{sizes} : {value[1]} into {to}"
        )
        return made, to, None


def corner(t, places, step, total):
    """Adds the weighted elements at the corners `step` after the whole places."""
    inside, weight, flat = None, None, None
    for (whole, part), at, size in zip(places, step, (HEIGHT, WIDTH), strict=True):
        place = t.op(
            POINT,
            "f32",
            f"%c = arith.constant {float(at)} : f32\n%y = arith.addf %a0, %c : f32",
            whole,
        )
        limits = f"""%z = arith.constant 0.0 : f32
    %m = arith.constant {float(size - 1)} : f32"""
        low = t.op(POINT, "i1", f"{limits}\n%y = arith.cmpf oge, %a0, %z : f32", place)
        high = t.op(POINT, "i1", f"{limits}\n%y = arith.cmpf ole, %a0, %m : f32", place)
        both = "%y = arith.andi %a0, %a1 : i1"
        for mask in (low, high):
            inside = mask if inside is None else t.op(POINT, "i1", both, inside, mask)
        index = t.op(
            POINT,
            "i64",
            f"""{limits}
    %b = arith.maximumf %a0, %z : f32
    %d = arith.minimumf %b, %m : f32
    %y = arith.fptosi %d : f32 to i64""",
            place,
        )
        rows = f"""%s = arith.constant {size} : i64
    %t = arith.muli %a0, %s : i64
    %y = arith.addi %t, %a1 : i64"""
        flat = index if flat is None else t.op(POINT, "i64", rows, flat, index)
        other = "%y = arith.addf %a0, %z : f32" if at else "%y = arith.subf %n, %a0 : f32"
        own = t.op(
            POINT,
            "f32",
            f"%z = arith.constant 0.0 : f32\n%n = arith.constant 1.0 : f32\n{other}",
            part,
        )
        weight = (
            own
            if weight is None
            else t.op(POINT, "f32", "%y = arith.mulf %a0, %a1 : f32", weight, own)
        )
    index = t.reshaped(flat, "collapse", "[[0], [1, 2]]", FLAT, "i64")
    gathered = t.op(
        GATHERED,
        "f32",
        f"""%n = linalg.index 0 : index
    %c = linalg.index 1 : index
    %p = arith.index_cast %a0 : i64 to index
    %y = tensor.extract %x[%n, %c, %p] : tensor<{PIXELS}xf32>""",
        (*index[:2], "#i"),
        own="#g",
    )
    value = t.reshaped(gathered, "expand", "[[0], [1], [2, 3]]", RESULT, "f32")
    chosen = """%z = arith.constant 0.0 : f32
    %w = arith.select %a0, %a1, %z : f32
    %y = arith.mulf %w, %a2 : f32"""
    found = t.op(
        RESULT,
        "f32",
        chosen,
        (*inside[:2], "#s"),
        (*value[:2], "#r"),
        (*weight[:2], "#s"),
        own="#r",
    )
    add = "%y = arith.addf %a0, %a1 : f32"
    return found if total is None else t.op(RESULT, "f32", add, total, found, own="#r")


def text(*, summed=False):
    """Bilinear samples at the places of a grid, zero outside; or their sums over the places."""
    t = Text()
    places = []
    for axis in (1, 0):
        cut = f"%g{axis}"
        sizes = f"[{POINT.replace('x', ', ')}, 1]"
        t.lines.append(f"""  {cut} = tensor.extract_slice %grid[0, 0, 0, {axis}] {sizes}[1, 1, 1, 1]
      : tensor<{POINT}x2xf32> to tensor<{POINT}xf32>""")
        place = (cut, f"tensor<{POINT}xf32>", "#p")
        whole = t.op(POINT, "f32", "%y = math.floor %a0 : f32", place)
        places.append((whole, t.op(POINT, "f32", "%y = arith.subf %a0, %a1 : f32", place, whole)))
    total = None
    for step in ((0, 0), (0, 1), (1, 0), (1, 1)):
        total = corner(t, places, step, total)
    result = RESULT
    if summed:
        result = f"{IMAGES}x{CHANNELS}"
        t.lines.append(f"""  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<{result}xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<{result}xf32>) -> tensor<{result}xf32>
  %sum = linalg.generic {{indexing_maps = [#r, #k],
      iterator_types = ["parallel", "parallel", "reduction", "reduction"]}}
      ins({total[0]} : {total[1]}) outs(%f : tensor<{result}xf32>) {{
  ^bb0(%a: f32, %o: f32):
    %y = arith.addf %a, %o : f32
    linalg.yield %y : f32
  }} -> tensor<{result}xf32>""")
        total = ("%sum", f"tensor<{result}xf32>")
    lines = "\n".join(t.lines)
    return f"""{MAPS}
func.func @main(%x: tensor<{PIXELS}xf32>, %grid: tensor<{POINT}x2xf32>) -> tensor<{result}xf32> {{
{lines}
  return {total[0]} : {total[1]}
}}"""


def sampled(x, grid):
    """The same by numpy."""
    image = np.zeros((IMAGES, CHANNELS, HEIGHT + 4, WIDTH + 4))
    image[:, :, 2:-2, 2:-2] = x.reshape(IMAGES, CHANNELS, HEIGHT, WIDTH)
    wide = grid.astype(np.float64)
    whole = np.floor(wide).astype(int)
    part = wide - whole
    total = np.zeros((IMAGES, CHANNELS, ROWS, COLUMNS))
    images = np.arange(IMAGES)[:, None, None]
    for down, right in ((0, 0), (0, 1), (1, 0), (1, 1)):
        h = np.clip(whole[..., 1] + down + 2, 0, HEIGHT + 3)
        w = np.clip(whole[..., 0] + right + 2, 0, WIDTH + 3)
        weights = [abs(1 - at - p) for at, p in ((down, part[..., 1]), (right, part[..., 0]))]
        found = np.moveaxis(image[images, :, h, w], -1, 1)
        total += found * (weights[0] * weights[1])[:, None]
    return total


def arguments():
    """An image, and places of which some are outside of it."""
    grid = draw((IMAGES, ROWS, COLUMNS, 2), "f32", seed=1, spread=4.0) + np.float32(4)
    return [draw((IMAGES, CHANNELS, HEIGHT * WIDTH), "f32"), grid]


@needs_triton
@pytest.mark.parametrize("summed", [False, True])
def test_samples_are_one_kernel(interpreter, summed):
    given, kind = arguments(), "rows" if summed else "elementwise"
    expected = sampled(*given)
    expected = expected.sum((2, 3)) if summed else expected
    (found,) = run(interpreter, text(summed=summed), kind, given, [expected.shape])
    close(found, expected, "f32")


@needs_triton
def test_only_the_image_and_the_grid_are_read():
    with ir.Context():
        _, (plan,) = planned(text(), "elementwise")
        shapes = {str(value.type) for value in plan.operands}
        assert shapes == {f"tensor<{PIXELS}xf32>", f"tensor<{POINT}x2xf32>"}


@needs_triton
def test_reshapes_around_the_gathers_part_the_group():
    """Without the pass the limit of operands is reached, as it was."""
    with ir.Context():
        grouped, _ = planned(text(), "elementwise", without=("gather_reshape_rewrite",))
        assert str(grouped).count("flow.dispatch.region") > 1
