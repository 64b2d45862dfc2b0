"""Modules that compute the indices of sorted rows by ranks, and the same in numpy."""

import dataclasses

import ml_dtypes
import numpy as np

from helpers.harness import FLOATS


@dataclasses.dataclass(frozen=True)
class Case:
    """Indices of the first elements of a sorted dimension.

    `broken` is the name of one property of the program that is another one.
    """

    shape: tuple[int, ...]
    dim: int = -1
    element: str = "f32"
    descending: bool = False
    count: int = 0
    broken: str = ""

    @property
    def axis(self):
        return self.dim % len(self.shape)

    @property
    def kept(self):
        return self.count or self.shape[self.axis]

    @property
    def result(self):
        return tuple(self.kept if n == self.axis else size for n, size in enumerate(self.shape))


def tensor(shape, element):
    return f"tensor<{''.join(f'{n}x' for n in shape)}{element}>"


def body(case):
    """Whether the element `%y` comes before `%x`, with indices `%k` and `%j`."""
    less, more = ("ogt", "olt") if case.descending else ("olt", "ogt")
    kind, compare = case.element, "cmpf"
    if kind.startswith("i"):
        less, more, compare = "s" + less[1:], "s" + more[1:], "cmpi"
    if case.broken == "unsigned":
        less = "u" + less[1:]
    lines = [
        f"%lt = arith.{compare} {less}, %y, %x : {kind}",
        f"%gt = arith.{compare} {more}, %y, %x : {kind}",
    ]
    first, last = "%lt", "%gt"
    if compare == "cmpf" and case.broken != "nan":
        one, other = ("%x", "%y") if not case.descending else ("%y", "%x")
        lines += [
            f"%nx = arith.cmpf une, {one}, {one} : {kind}",
            f"%ny = arith.cmpf une, {other}, {other} : {kind}",
            "%mx = arith.xori %nx, %true : i1",
            "%my = arith.xori %ny, %true : i1",
            "%nl = arith.andi %nx, %my : i1",
            "%ng = arith.andi %ny, %mx : i1",
            "%ll = arith.ori %lt, %nl : i1",
            "%gg = arith.ori %gt, %ng : i1",
        ]
        first, last = "%ll", "%gg"
    ties = "sgt" if case.broken == "unstable" else "sle" if case.broken == "itself" else "slt"
    return "\n    ".join(
        [
            *lines,
            f"%le = arith.xori {last}, %true : i1",
            f"%e = arith.cmpi {ties}, %k, %j : i32",
            f"%s = arith.select %e, %le, {first} : i1",
            "linalg.yield %s : i1",
        ]
    )


def text(case):
    """The module: x -> the indices."""
    rank, axis = len(case.shape), case.axis
    loops = [f"d{n}" for n in range(rank)]
    other = [loop if n != axis else "k" for n, loop in enumerate(loops)]
    size, kind = case.shape[axis], case.element
    pairs, chosen = (*case.shape, size), (*case.result, size)
    every = f"({', '.join([*loops, 'k'])})"
    spelled = {
        "all": f"affine_map<{every} -> {every}>",
        "this": f"affine_map<{every} -> ({', '.join(loops)})>",
        "other": f"affine_map<{every} -> ({', '.join(other)})>",
        "j": f"affine_map<{every} -> (d{axis})>",
        "k": f"affine_map<{every} -> (k)>",
    }
    parallel = ", ".join(['"parallel"'] * (rank + 1))
    reduced = ", ".join(['"parallel"'] * rank + ['"reduction"'])
    start = 1 if case.broken == "positions" else 0
    numbers = ", ".join(str(n) for n in range(size))
    first = ", ".join(str(n + start) for n in range(case.kept))
    init = 1 if case.broken == "init" else 0

    def maps(*names):
        return f"indexing_maps = [{', '.join(spelled[name] for name in names)}]"

    def summed(name, source, shape, result):
        return f"""
  {name}e = tensor.empty() : {tensor(result, "i32")}
  {name}f = linalg.fill ins(%init : i32) outs({name}e : {tensor(result, "i32")}) -> {
            tensor(result, "i32")
        }
  {name} = linalg.generic {{{maps("all", "this")}, iterator_types = [{reduced}]}}
      ins({source} : {tensor(shape, "i32")}) outs({name}f : {tensor(result, "i32")}) {{
  ^bb0(%a: i32, %b: i32):
    %c = arith.addi %a, %b : i32
    linalg.yield %c : i32
  }} -> {tensor(result, "i32")}"""

    columns, places = tensor((size,), "i32"), tensor((case.kept,), "i32")
    given = tensor(case.shape, kind)
    return f"""
func.func @main(%arg: {given}) -> {tensor(case.result, "i32")} {{
  %true = arith.constant true
  %zero = arith.constant 0 : i32
  %init = arith.constant {init} : i32
  %n = arith.constant dense<[{numbers}]> : {columns}
  %p = arith.constant dense<[{first}]> : {places}
  %be = tensor.empty() : {tensor(pairs, "i1")}
  %before = linalg.generic {{{maps("this", "other", "j", "k", "all")},
      iterator_types = [{parallel}]}}
      ins(%arg, %arg, %n, %n : {given}, {given}, {columns}, {columns})
      outs(%be : {tensor(pairs, "i1")}) {{
  ^bb0(%x: {kind}, %y: {kind}, %j: i32, %k: i32, %o: i1):
    {body(case)}
  }} -> {tensor(pairs, "i1")}
  %we = tensor.empty() : {tensor(pairs, "i32")}
  %w = linalg.generic {{{maps("all", "all")}, iterator_types = [{parallel}]}}
      ins(%before : {tensor(pairs, "i1")}) outs(%we : {tensor(pairs, "i32")}) {{
  ^bb0(%a: i1, %o: i32):
    %c = arith.extui %a : i1 to i32
    linalg.yield %c : i32
  }} -> {tensor(pairs, "i32")}{summed("%r", "%w", pairs, case.shape)}
  %he = tensor.empty() : {tensor(chosen, "i32")}
  %h = linalg.generic {{{maps("other", "j", "k", "all")}, iterator_types = [{parallel}]}}
      ins(%r, %p, %n : {tensor(case.shape, "i32")}, {places}, {columns})
      outs(%he : {tensor(chosen, "i32")}) {{
  ^bb0(%a: i32, %b: i32, %i: i32, %o: i32):
    %c = arith.cmpi eq, %a, %b : i32
    %d = arith.select %c, %i, %zero : i32
    linalg.yield %d : i32
  }} -> {tensor(chosen, "i32")}{summed("%i", "%h", chosen, case.result)}
  return %i : {tensor(case.result, "i32")}
}}
"""


def expected(case, x):
    """The indices in the stable order, NaN being the largest number."""
    wide = x.astype(np.float64 if x.dtype.kind not in "iu" else np.int64)
    unknown = np.isnan(wide)
    key = np.where(unknown, 0, wide)
    # By the last key first: NaN, then the number, then the index.
    if case.descending:  # the complement of an integer, whose opposite may be out of range
        key, unknown = (~key if key.dtype.kind == "i" else -key), ~unknown
    index = np.broadcast_to(
        np.arange(x.shape[case.axis]).reshape([-1 if n == case.axis else 1 for n in range(x.ndim)]),
        x.shape,
    )
    found = np.lexsort((index, key, unknown), axis=case.axis)
    return np.take(found, np.arange(case.kept), axis=case.axis)


def elements(case, seed=0, *, subnormal=False):
    """Numbers with many ties, the ends of their type, and for floats NaN, infinities and zeros."""
    rng = np.random.default_rng(seed)
    if case.element.startswith("i"):
        kind = np.dtype(case.element.replace("i", "int"))
        ends = np.iinfo(kind)
        few = np.array([ends.min, ends.max, -1, 0, 1, 7], kind)
        some = rng.integers(ends.min, ends.max, case.shape, kind, endpoint=True)
        return np.where(rng.random(case.shape) < 0.5, rng.choice(few, case.shape), some)
    kind = np.dtype({**FLOATS, "f64": np.float64}[case.element])
    info = ml_dtypes.finfo(kind)
    least = info.smallest_subnormal if subnormal else info.smallest_normal
    special = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, least, -least]
    drawn = rng.choice(np.array(special, np.float64).astype(kind), case.shape)
    numbers = rng.standard_normal(case.shape).astype(kind)
    return np.where(rng.random(case.shape) < 0.5, drawn, numbers)


def _gathered(case, name, source, element, indices, kind):
    """The elements of `source` along the sorted dimension at indices of this kind."""
    made, read = tensor(case.result, element), tensor(case.shape, element)
    loops = range(len(case.shape))
    identity = ", ".join(f"d{n}" for n in loops)
    index_map = f"affine_map<({identity}) -> ({identity})>"
    parallel = ", ".join('"parallel"' for _ in loops)
    lines = "\n    ".join(f"%l{n} = linalg.index {n} : index" for n in loops)
    places = ", ".join("%place" if n == case.axis else f"%l{n}" for n in loops)
    return f"""
  {name}e = tensor.empty() : {made}
  {name} = linalg.generic {{indexing_maps = [{index_map}, {index_map}],
      iterator_types = [{parallel}]}}
      ins({indices} : {tensor(case.result, kind)}) outs({name}e : {made}) {{
  ^bb0(%index: {kind}, %o: {element}):
    {lines}
    %place = arith.index_cast %index : {kind} to index
    %e = tensor.extract {source}[{places}] : {read}
    linalg.yield %e : {element}
  }} -> {made}"""


def with_values(case):
    """The module: x -> the first elements of the sorted rows, and their indices."""
    result, indices = tensor(case.result, case.element), tensor(case.result, "i32")
    gather = _gathered(case, "%v", "%arg", case.element, "%i", "i32")
    gather += f"\n  return %v, %i : {result}, {indices}"
    made = text(case).replace(f"\n  return %i : {indices}", gather)
    return made.replace(f"-> {indices} {{\n  %true", f"-> ({result}, {indices}) {{\n  %true")


def values_alone(case):
    """The module: x -> the first elements of the sorted rows."""
    result, indices = tensor(case.result, case.element), tensor(case.result, "i32")
    gather = _gathered(case, "%v", "%arg", case.element, "%i", "i32")
    made = text(case).replace(f"\n  return %i : {indices}", f"{gather}\n  return %v : {result}")
    return made.replace(f"-> {indices} {{\n  %true", f"-> {result} {{\n  %true")


def text_with_users(case, other="f32"):
    """The module: x, y -> the indices as i64, and with them the elements of x and of y."""
    loops = ", ".join(f"d{n}" for n in range(len(case.shape)))
    same = f"affine_map<({loops}) -> ({loops})>"
    iterators = ", ".join(['"parallel"'] * len(case.shape))
    narrow, wide = tensor(case.result, "i32"), tensor(case.result, "i64")
    results = ", ".join([wide, tensor(case.result, case.element), tensor(case.result, other)])
    gathers = _gathered(case, "%v", "%arg", case.element, "%wide", "i64")
    gathers += _gathered(case, "%u", "%other", other, "%wide", "i64")
    users = f"""
  %widee = tensor.empty() : {wide}
  %wide = linalg.generic {{indexing_maps = [{same}, {same}], iterator_types = [{iterators}]}}
      ins(%i : {narrow}) outs(%widee : {wide}) {{
  ^bb0(%a: i32, %o: i64):
    %c = arith.extsi %a : i32 to i64
    linalg.yield %c : i64
  }} -> {wide}{gathers}
  return %wide, %v, %u : {results}"""
    given = f"%arg: {tensor(case.shape, case.element)}"
    made = text(case).replace(f"\n  return %i : {narrow}", users)
    return made.replace(
        f"({given}) -> {narrow} {{",
        f"({given}, %other: {tensor(case.shape, other)}) -> ({results}) {{",
    )
