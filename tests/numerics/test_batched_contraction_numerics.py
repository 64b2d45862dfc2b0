"""Batches of contractions are right for every instruction set, in any order of dimensions."""

import dataclasses
import random

import ml_dtypes
import numpy as np
import pytest

import mlirfuse

TARGETS = ("cpu:host", "cpu:x86-64-v4", "cpu:x86-64-v3")
"""This machine, and vectors of 64 and 32 bytes."""

NUMPY = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "i8": np.int8}
TOLERANCE = 2e-6


@dataclasses.dataclass(frozen=True)
class Form:
    """A contraction by the letters of its dimensions; b and c are batches."""

    letters: str
    sizes: dict[str, int]
    dtype: str = "f32"
    constant: bool = False
    residual: bool = False

    @property
    def accumulator(self):
        return "i32" if self.dtype == "i8" else "f32"

    def shape(self, number):
        return tuple(
            self.sizes[letter] for letter in self.letters.replace("->", ",").split(",")[number]
        )

    def type(self, number, dtype):
        return f"tensor<{'x'.join(map(str, self.shape(number)))}x{dtype}>"

    def arrays(self):
        rng = np.random.default_rng(sum(self.sizes.values()))
        if self.dtype == "i8":
            return [rng.integers(-128, 128, self.shape(n)).astype(np.int8) for n in range(2)]
        kinds = (self.dtype, self.dtype, "f32")[: 3 if self.residual else 2]
        return [rng.standard_normal(self.shape(n)).astype(NUMPY[k]) for n, k in enumerate(kinds)]

    def expected(self):
        a, b, *others = (
            x.astype(np.int64 if self.dtype == "i8" else np.float64) for x in self.arrays()
        )
        found = np.einsum(self.letters, a, b)
        return np.maximum(found + others[0], 0.0) if others else found


SMALL = {"b": 3, "m": 5, "n": 37, "k": 29}
FORMS = {
    "plain": Form("bmk,bkn->bmn", SMALL),
    "constant": Form("bmk,bkn->bmn", SMALL, constant=True),
    "one_row": Form("bk,bkn->bn", SMALL),
    "one_row_transposed": Form("bk,bnk->bn", {"b": 3, "n": 70, "k": 96}),
    "one_row_transposed_bfloats": Form("bk,bnk->bn", {"b": 3, "n": 70, "k": 97}, "bf16"),
    "many_rows": Form("bmk,bkn->bmn", {**SMALL, "m": 77}, residual=True),
    "transposed": Form("bmk,bnk->bmn", {**SMALL, "m": 40}),
    "transposed_result": Form("bmk,bkn->bnm", {**SMALL, "m": 33}),
    "heads_inside": Form("mbk,nbk->bmn", {**SMALL, "m": 34}),
    "batch_last": Form("mkb,kbn->mbn", SMALL),
    "two_batches": Form("bcmk,bckn->bcmn", {**SMALL, "c": 2}, residual=True),
    "batches_apart": Form("bmck,cbkn->mbcn", {**SMALL, "c": 4}, constant=True),
    "shared_filter_of_one_row": Form("bmxk,bkn->bmxn", {**SMALL, "m": 2, "x": 1}),
    "rows_apart_of_one": Form("mbxk,bkn->bmxn", {**SMALL, "x": 1}),
    "shared_rows": Form("bmxk,bkn->bmxn", {**SMALL, "x": 3}),
    "no_columns_beyond": Form("bmk,bkn->bmn", {**SMALL, "n": 64}),
    "halves": Form("bmk,bkn->bmn", SMALL, "f16"),
    "bfloats": Form("bmk,bkn->bmn", {**SMALL, "m": 40}, "bf16", residual=True),
    "few_rows_of_bfloats": Form("bmk,bkn->bmn", SMALL, "bf16", residual=True),
    "odd_bfloats_constant": Form("bmk,bkn->bmn", {**SMALL, "k": 31}, "bf16", constant=True),
    "bfloats_of_tiles": Form("bmk,bkn->bmn", {"b": 2, "m": 50, "n": 75, "k": 70}, "bf16", True),
    "whole_tiles": Form("mk,kn->mn", {"m": 64, "n": 64, "k": 64}, "bf16", True, residual=True),
    "bytes_of_tiles": Form("bmk,bkn->bmn", {"b": 2, "m": 50, "n": 75, "k": 100}, "i8", True),
    "bytes": Form("bmk,bkn->bmn", {**SMALL, "m": 35}, "i8"),
    "bytes_constant": Form("bcmk,bckn->bcmn", {**SMALL, "c": 2}, "i8", constant=True),
}


def module(forms):
    """One function with all contractions."""
    arguments, lines, names, results = [], [], [], []
    for name, form in forms.items():
        total, kind = form.accumulator, form.dtype
        a, b, y = form.type(0, kind), form.type(1, kind), form.type(2, total)
        arguments.append(f"%a_{name}: {a}")
        if form.constant:
            data = form.arrays()[1].tobytes().hex()
            lines.append(f'%b_{name} = arith.constant dense<"0x{data}"> : {b}')
        else:
            arguments.append(f"%b_{name}: {b}")
        letters = dict.fromkeys(form.letters.replace("->", ",").replace(",", ""))
        loops = ", ".join(letters)
        first, second, last = form.letters.replace("->", ",").split(",")
        maps = ", ".join(
            f"affine_map<({loops}) -> ({', '.join(x)})>" for x in (first, second, last)
        )
        kinds = ", ".join('"parallel"' if x in last else '"reduction"' for x in letters)
        extend = {"i8": "arith.extsi", "f32": ""}.get(kind, "arith.extf")
        widened = [f"%{p} = {extend} %{q} : {kind} to {total}" for p, q in ("pi", "qj")]
        p, q = ("%p", "%q") if extend else ("%i", "%j")
        suffix = "i" if kind == "i8" else "f"
        widen = "\n    ".join(widened) if extend else ""
        lines.append(f"""
  %e_{name} = tensor.empty() : {y}
  %f_{name} = linalg.fill ins(%zero_{total} : {total}) outs(%e_{name} : {y}) -> {y}
  %y_{name} = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}}
      ins(%a_{name}, %b_{name} : {a}, {b}) outs(%f_{name} : {y}) {{
  ^bb0(%i: {kind}, %j: {kind}, %o: {total}):
    {widen}
    %r = arith.mul{suffix} {p}, {q} : {total}
    %s = arith.add{suffix} %o, %r : {total}
    linalg.yield %s : {total}
  }} -> {y}""")
        result = f"%y_{name}"
        if form.residual:
            arguments.append(f"%c_{name}: {y}")
            lines.append(f"  %t_{name} = arith.addf %y_{name}, %c_{name} : {y}")
            lines.append(f"  %g_{name} = arith.constant dense<0.0> : {y}")
            lines.append(f"  %u_{name} = arith.maximumf %t_{name}, %g_{name} : {y}")
            result = f"%u_{name}"
        names.append(result)
        results.append(y)
    return (
        f"func.func @main({', '.join(arguments)}) -> ({', '.join(results)}) {{\n"
        "  %zero_f32 = arith.constant 0.0 : f32\n  %zero_i32 = arith.constant 0 : i32\n"
        f"{chr(10).join(lines)}\n  return {', '.join(names)} : {', '.join(results)}\n}}\n"
    )


RANDOM_FORMS = 12
"""Forms of a module with random ones."""


def drawn(seed):
    """Forms with random orders of dimensions, many of size 1."""
    chosen = random.Random(seed)

    def form():
        counts = (chosen.choice(n) for n in ((0, 1, 1, 2), (1, 2, 3), (0, 1, 1, 2), (1, 1, 2)))
        batch, rows, columns, reduced = ("bcmxynpkl"[n : n + count] for n, count in zip(
            (0, 2, 5, 7), counts, strict=True
        ))  # fmt: skip
        sizes = {d: chosen.choice((1, 1, 1, 2, 3, 7, 16, 20)) for d in batch + rows + columns}
        sizes |= {d: chosen.choice((1, 3, 16, 33, 40)) for d in reduced}

        def order(dims):
            mixed = chosen.random() < 0.5
            return "".join(chosen.sample(dims, len(dims)) if mixed else dims)

        letters = f"{order(batch + rows + reduced)},{order(batch + reduced + columns)}"
        dtype = chosen.choice(("f32", "f32", "f16", "bf16", "i8"))
        residual = dtype != "i8" and chosen.random() < 0.3
        letters = f"{letters}->{order(batch + rows + columns)}"
        return Form(letters, sizes, dtype, chosen.random() < 0.5, residual)

    return {f"{seed}_{n}": form() for n in range(RANDOM_FORMS)}


def check(program, forms):
    """Compares the results of a program with float64."""
    given = []
    for form in forms.values():
        a, b, *others = form.arrays()
        given += [a, *([] if form.constant else [b]), *others]
    for (name, form), found in zip(forms.items(), program(*given), strict=True):
        expected = form.expected()
        if form.dtype == "i8":
            np.testing.assert_array_equal(np.asarray(found), expected, err_msg=f"{name}: {form}")
            continue
        limit = TOLERANCE * max(1.0, np.abs(expected).max())
        np.testing.assert_allclose(
            np.asarray(found), expected, rtol=0, atol=limit, err_msg=f"{name}: {form}"
        )


def compiled(forms, target, folder):
    """The program of forms."""
    path = folder / "forms.mlir"
    path.write_text(module(forms))
    return mlirfuse.compile(path, target=target, cache=False)


@pytest.mark.parametrize("target", TARGETS)
def test_batches(target, tmp_path):
    program = compiled(FORMS, target, tmp_path)
    assert program.report.counts()["matmul_vector_kernel"] == len(FORMS)
    check(program, FORMS)


@pytest.mark.parametrize("seed", range(4))
def test_random_orders(seed, tmp_path):
    forms = drawn(seed)
    check(compiled(forms, "cpu:host", tmp_path), forms)


@pytest.mark.parametrize("target", ["cpu:x86-64-v4", "cpu:znver4"])
def test_few_rows_of_bfloats_are_read_as_they_are(target):
    """Pairs of the computed operand would be packed in each call."""
    for form in ("few_rows_of_bfloats", "one_row_transposed_bfloats"):
        program = mlirfuse.compile(module({"y": FORMS[form]}), target=target)
        assert [kernel.code for kernel in program.kernels] == ["matmul_vector_kernel"]
