"""The kernels that `mlirfuse-tune --kernels` measures when it is given no model, as groups."""

from __future__ import annotations

from collections.abc import Iterator

from iree.compiler import ir

from mlirfuse.structured.ir import ops

PRODUCTS = (
    (4096, 4096, 4096, 1, "nk"),
    (4096, 4096, 4096, 1, "kn"),
    (8192, 28672, 8192, 1, "nk"),
    (8192, 3072, 768, 1, "nk"),
    (4096, 1024, 512, 1, "kn"),
    (512, 768, 768, 1, "nk"),
    (16, 4096, 4096, 1, "nk"),
    (16, 4096, 4096, 1, "kn"),
    (1, 4096, 14336, 1, "nk"),
    (1, 14336, 4096, 1, "kn"),
    (512, 512, 64, 64, "nk"),
)
"""Rows, columns, terms, batch, and how the right operand lies in memory."""

GATED = ((1024, 14336, 4096), (16, 14336, 4096))
"""Rows, columns and terms of gated units, whose weights lie as PyTorch's do."""

ATTENTIONS = (
    (128, 1, 1024, 1024, 64, False),
    (32, 1, 4096, 4096, 128, True),
    (16, 4, 1024, 1024, 128, False),
    (96, 1, 512, 512, 64, True),
)
"""Heads of k, heads of q for each, queries, keys, head size, whether causal."""

CONVOLUTIONS = (
    (32, 224, 3, 64, 7, 2),
    (32, 56, 64, 64, 3, 1),
    (32, 56, 256, 64, 1, 1),
    (32, 56, 64, 256, 1, 1),
    (32, 56, 128, 128, 3, 2),
    (32, 14, 1024, 256, 1, 1),
    (32, 14, 256, 256, 3, 1),
    (32, 7, 512, 512, 3, 1),
    (32, 7, 512, 2048, 1, 1),
)
"""Images, their side, input and output channels, side of the window, stride."""

ROWS = tuple(
    (rows, columns, kind)
    for rows, columns in ((16384, 1024), (16384, 4096), (16384, 8192), (2048, 32768))
    for kind in ("norm", "centered norm", "sum, norm", "sum, centered norm", "i8 norm", "softmax")
)
"""Rows, columns, and what is computed of them."""

ELEMENTWISE = ((16384, 4096, "id"), (16384, 4096, "nm"))
"""Rows and columns of a sum with a bias and its error function, and how the operand lies."""

_MAPS = """#a = affine_map<(b, m, n, k) -> (b, m, k)>
#nk = affine_map<(b, m, n, k) -> (b, n, k)>
#kn = affine_map<(b, m, n, k) -> (b, k, n)>
#c = affine_map<(b, m, n, k) -> (b, m, n)>
#id = affine_map<(b, m, n) -> (b, m, n)>
#nm = affine_map<(b, m, n) -> (b, n, m)>
#n = affine_map<(b, m, n) -> (n)>
#q = affine_map<(h, g, m, n, d, k) -> (h, g, m, d)>
#k = affine_map<(h, g, m, n, d, k) -> (h, k, d)>
#v = affine_map<(h, g, m, n, d, k) -> (h, k, n)>
#s = affine_map<(h, g, m, n, d, k) -> ()>
#i = affine_map<(h, g, m, n, d, k) -> (m, k)>
#o = affine_map<(h, g, m, n, d, k) -> (h, g, m, n)>
#mk = affine_map<(m, k) -> (m, k)>
#m = affine_map<(m, k) -> (m)>
"""


def modules() -> Iterator[ir.Module]:
    """A module for each kernel, of f16; they need a context."""
    for product in PRODUCTS:
        yield _module(*_product(*product))
    for gated in GATED:
        yield _module(*_gated(*gated))
    for attention in ATTENTIONS:
        yield _module(*_attention(*attention))
    for convolution in CONVOLUTIONS:
        yield _module(*_convolution(*convolution))
    for elementwise in ELEMENTWISE:
        yield _module(*_elementwise(*elementwise))
    for rows in ROWS:
        yield _module(*_rows(*rows))


def _module(arguments: str, result: str, region: str, kept: str = "") -> ir.Module:
    """A module whose region has the result `%out` and, if it has a type, the result `%kept`."""
    types = f"{result}, {kept}" if kept else result
    names, results = ("%out, %kept", "%y#0, %y#1") if kept else ("%out", "%y#0")
    return ir.Module.parse(
        f"{_MAPS}util.func public @main({arguments}) -> ({types}) {{\n"
        "%zero = arith.constant 0.0 : f32\n%scale = arith.constant 0.125 : f16\n"
        f"%y:{2 if kept else 1} = {ops.REGION} -> ({types}) {{\n{region}\n"
        f"flow.return {names} : {types}\n}}\nutil.return {results} : {types}\n}}"
    )


def _zeros(kind: str) -> str:
    return (
        f"%e = tensor.empty() : {kind}\n"
        f"%f = linalg.fill ins(%zero : f32) outs(%e : {kind}) -> {kind}\n"
    )


def _product(rows: int, columns: int, depth: int, batch: int, layout: str) -> tuple[str, str, str]:
    left, bias = f"tensor<{batch}x{rows}x{depth}xf16>", f"tensor<{columns}xf16>"
    sides = f"{columns}x{depth}" if layout == "nk" else f"{depth}x{columns}"
    right = f"tensor<{batch}x{sides}xf16>"
    sums, out = (f"tensor<{batch}x{rows}x{columns}x{kind}>" for kind in ("f32", "f16"))
    region = (
        f"{_zeros(sums)}%t = linalg.contract indexing_maps = [#a, #{layout}, #c]"
        f" ins(%a, %b : {left}, {right}) outs(%f : {sums}) -> {sums}\n"
        f"%h = tensor.empty() : {out}\n"
        "%out = linalg.generic {indexing_maps = [#id, #n, #id],"
        ' iterator_types = ["parallel", "parallel", "parallel"]}'
        f" ins(%t, %bias : {sums}, {bias}) outs(%h : {out}) {{\n"
        "^bb0(%x: f32, %c: f16, %o: f16):\n%w = arith.extf %c : f16 to f32\n"
        "%z = arith.addf %x, %w : f32\n%r = arith.truncf %z : f32 to f16\n"
        f"linalg.yield %r : f16\n}} -> {out}"
    )
    return f"%a: {left}, %b: {right}, %bias: {bias}", out, region


def _gated(rows: int, columns: int, depth: int) -> tuple[str, str, str]:
    left, right = f"tensor<1x{rows}x{depth}xf16>", f"tensor<1x{columns}x{depth}xf16>"
    sums, out = (f"tensor<1x{rows}x{columns}x{kind}>" for kind in ("f32", "f16"))
    region = (
        f"%one = arith.constant 1.0 : f32\n{_zeros(sums)}"
        "%t:2 = linalg.generic {indexing_maps = [#a, #nk, #nk, #c, #c],"
        ' iterator_types = ["parallel", "parallel", "parallel", "reduction"]}'
        f" ins(%a, %g, %u : {left}, {right}, {right}) outs(%f, %f : {sums}, {sums}) {{\n"
        "^bb0(%x: f16, %p: f16, %q: f16, %o: f32, %w: f32):\n%x2 = arith.extf %x : f16 to f32\n"
        "%p2 = arith.extf %p : f16 to f32\n%q2 = arith.extf %q : f16 to f32\n"
        "%m = arith.mulf %x2, %p2 : f32\n%n = arith.mulf %x2, %q2 : f32\n"
        "%r = arith.addf %o, %m : f32\n%s = arith.addf %w, %n : f32\n"
        f"linalg.yield %r, %s : f32, f32\n}} -> ({sums}, {sums})\n"
        f"%h = tensor.empty() : {out}\n"
        "%out = linalg.generic {indexing_maps = [#id, #id, #id],"
        ' iterator_types = ["parallel", "parallel", "parallel"]}'
        f" ins(%t#0, %t#1 : {sums}, {sums}) outs(%h : {out}) {{\n"
        "^bb0(%x: f32, %c: f32, %o: f16):\n%m = arith.negf %x : f32\n%p = math.exp %m : f32\n"
        "%d = arith.addf %p, %one : f32\n%s = arith.divf %x, %d : f32\n"
        "%z = arith.mulf %s, %c : f32\n%r = arith.truncf %z : f32 to f16\n"
        f"linalg.yield %r : f16\n}} -> {out}"
    )
    return f"%a: {left}, %g: {right}, %u: {right}", out, region


def _elementwise(rows: int, columns: int, layout: str) -> tuple[str, str, str]:
    sizes = f"{columns}x{rows}" if layout == "nm" else f"{rows}x{columns}"
    x, bias = f"tensor<1x{sizes}xf16>", f"tensor<{columns}xf16>"
    out = f"tensor<1x{rows}x{columns}xf16>"
    region = (
        f"%e = tensor.empty() : {out}\n"
        f"%out = linalg.generic {{indexing_maps = [#{layout}, #n, #id],"
        ' iterator_types = ["parallel", "parallel", "parallel"]}'
        f" ins(%x, %bias : {x}, {bias}) outs(%e : {out}) {{\n"
        "^bb0(%i: f16, %c: f16, %o: f16):\n%s = arith.addf %i, %c : f16\n"
        f"%r = math.erf %s : f16\nlinalg.yield %r : f16\n}} -> {out}"
    )
    return f"%x: {x}, %bias: {bias}", out, region


def _rows(rows: int, columns: int, kind: str) -> tuple[str, str, str, str]:
    """A softmax or a norm without weights; a sum of two tensors before it is a result too."""
    sums, narrow = f"tensor<{rows}xf32>", f"tensor<{rows}x{columns}xf16>"
    wide = narrow.replace("f16", "f32")
    out = narrow.replace("f16", "i8") if kind == "i8 norm" else narrow
    types = {"x": narrow, "r": narrow}
    lines = [f"%n = arith.constant {columns}.0 : f32", "%low = arith.constant 0xFF800000 : f32"]

    def step(name: str, reads: list[str], result: str, body: str, start: str = "") -> None:
        """An op whose body computes `%z` of `%a`, `%b`, and `%o` where it reduces the columns."""
        types[name] = result
        scalars = [types[n][:-1].split("x")[-1] for n in (*reads, name)]
        names = [*("a", "b")[: len(reads)], "o"]
        given = ", ".join(f"%{n}: {scalar}" for n, scalar in zip(names, scalars, strict=True))
        maps = ", ".join("#m" if types[n] == sums else "#mk" for n in (*reads, name))
        lines.append(f"%{name}_e = tensor.empty() : {result}")
        if start:
            lines.append(f"%{name}_f = linalg.fill ins(%{start} : f32) outs(%{name}_e : {result})")
            lines[-1] += f" -> {result}"
        lines.append(
            f"%{name} = linalg.generic {{indexing_maps = [{maps}],"
            f' iterator_types = ["parallel", "{"reduction" if start else "parallel"}"]}}'
            f" ins({', '.join(f'%{n}' for n in reads)} : {', '.join(types[n] for n in reads)})"
            f" outs(%{name}_{'f' if start else 'e'} : {result}) {{\n^bb0({given}):\n{body}\n"
            f"linalg.yield %z : {scalars[-1]}\n}} -> {result}"
        )

    if "sum" in kind:
        step("kept", ["x", "r"], narrow, "%z = arith.addf %a, %b : f16")
    step("w", ["kept" if "sum" in kind else "x"], wide, "%z = arith.extf %a : f16 to f32")
    total = "%z = arith.addf %a, %o : f32"
    if kind == "softmax":
        step("top", ["w"], sums, "%z = arith.maximumf %a, %o : f32", "low")
        step("v", ["w", "top"], wide, "%d = arith.subf %a, %b : f32\n%z = math.exp %d : f32")
        step("all", ["v"], sums, total, "zero")
        step("y", ["v", "all"], wide, "%z = arith.divf %a, %b : f32")
    else:
        mean = "%m = arith.divf %b, %n : f32\n"
        if "centered" in kind:
            step("all", ["w"], sums, total, "zero")
            step("v", ["w", "all"], wide, f"{mean}%z = arith.subf %a, %m : f32")
        centered = "v" if "centered" in kind else "w"
        square = "%s = arith.mulf %a, %a : f32\n%z = arith.addf %s, %o : f32"
        step("square", [centered], sums, square, "zero")
        scaled = f"{mean}%q = math.rsqrt %m : f32\n%z = arith.mulf %a, %q : f32"
        step("y", [centered, "square"], wide, scaled)
    cast = "arith.fptosi %a : f32 to i8" if kind == "i8 norm" else "arith.truncf %a : f32 to f16"
    step("out", ["y"], out, f"%z = {cast}")
    arguments = f"%x: {narrow}, %r: {narrow}" if "sum" in kind else f"%x: {narrow}"
    return arguments, out, "\n".join(lines), narrow if "sum" in kind else ""


def _attention(
    heads: int, group: int, queries: int, keys: int, head: int, causal: bool
) -> tuple[str, str, str]:
    q, kv = f"tensor<{heads}x{group}x{queries}x{head}xf16>", f"tensor<{heads}x{keys}x{head}xf16>"
    mask = f"tensor<{queries}x{keys}xi1>"
    text, maps, more, types = "", "", "", ""
    if causal:
        text = (
            f"%me = tensor.empty() : {mask}\n%mask = linalg.generic {{indexing_maps = [#mk],"
            f' iterator_types = ["parallel", "parallel"]}} outs(%me : {mask}) {{\n'
            "^bb0(%o: i1):\n%i = linalg.index 0 : index\n%j = linalg.index 1 : index\n"
            f"%r = arith.cmpi sge, %i, %j : index\nlinalg.yield %r : i1\n}} -> {mask}\n"
        )
        maps, more, types = "#i, ", ", %mask", f", {mask}"
    region = (
        f"{text}%e = tensor.empty() : {q}\n"
        f"%out = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, {maps}#o]>"
        f" ins(%q, %k, %v, %scale{more} : {q}, {kv}, {kv}, f16{types}) outs(%e : {q}) {{\n"
        f"^bb0(%s: f32):\niree_linalg_ext.yield %s : f32\n}} -> {q}"
    )
    return f"%q: {q}, %k: {kv}, %v: {kv}", q, region


def _convolution(
    images: int, side: int, channels: int, outputs: int, window: int, stride: int
) -> tuple[str, str, str]:
    """A convolution with zeros around its image, a bias and a ReLU, channels last."""
    around, places = window // 2, (side - 1) // stride + 1
    image = f"tensor<{images}x{side}x{side}x{channels}xf16>"
    padded = f"tensor<{images}x{side + 2 * around}x{side + 2 * around}x{channels}xf16>"
    weight = f"tensor<{f'{window}x{window}x' if around else ''}{channels}x{outputs}xf16>"
    sums, out = (f"tensor<{images}x{places}x{places}x{outputs}x{kind}>" for kind in ("f32", "f16"))
    loops = f"b, h, w, f, {'i, j, ' if around else ''}c"
    at = ", ".join(f"{d} * {stride}" + (f" + {k}" if around else "") for d, k in ("hi", "wj"))
    maps = ", ".join(
        f"affine_map<({loops}) -> ({read})>"
        for read in (f"b, {at}, c", f"{'i, j, ' if around else ''}c, f", "b, h, w, f")
    )
    summed = ', "reduction"' * (3 if around else 1)
    kinds = ", ".join(['"parallel"'] * 4)
    pad = (
        f"%p = tensor.pad %x low[0, {around}, {around}, 0] high[0, {around}, {around}, 0] {{\n"
        "^bb0(%i: index, %j: index, %k: index, %l: index):\n"
        f"tensor.yield %edge : f16\n}} : {image} to {padded}\n"
    )
    region = (
        f"{_zeros(sums)}%edge = arith.constant 0.0 : f16\n{pad if around else ''}"
        f"%t = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}{summed}]}}"
        f" ins(%{'p' if around else 'x'}, %w : {padded}, {weight}) outs(%f : {sums}) {{\n"
        "^bb0(%a: f16, %b: f16, %o: f32):\n%c = arith.extf %a : f16 to f32\n"
        "%d = arith.extf %b : f16 to f32\n%m = arith.mulf %c, %d : f32\n"
        f"%r = arith.addf %o, %m : f32\nlinalg.yield %r : f32\n}} -> {sums}\n"
        f"%h = tensor.empty() : {out}\n"
        "%out = linalg.generic {indexing_maps = [affine_map<(b, h, w, f) -> (b, h, w, f)>,"
        " affine_map<(b, h, w, f) -> (f)>, affine_map<(b, h, w, f) -> (b, h, w, f)>],"
        f" iterator_types = [{kinds}]}} ins(%t, %bias : {sums}, tensor<{outputs}xf16>)"
        f" outs(%h : {out}) {{\n^bb0(%a: f32, %b: f16, %o: f16):\n"
        "%c = arith.extf %b : f16 to f32\n%d = arith.addf %a, %c : f32\n"
        "%m = arith.maximumf %d, %zero : f32\n%r = arith.truncf %m : f32 to f16\n"
        f"linalg.yield %r : f16\n}} -> {out}"
    )
    return f"%x: {image}, %w: {weight}, %bias: tensor<{outputs}xf16>", out, region
