"""What the workgroups of a cluster tell each other: sums and maxima of what each of them has.

Workgroups of one cluster run at the same time on neighbouring multiprocessors and read each
other's memory (PTX ISA, `mapa` and `barrier.cluster`). Every workgroup gets the same numbers: they
are combined in the order of the ranks.
"""

import triton
import triton.language as tl

COMBINE = {
    "sum": "add.f32",
    "max": "max.NaN.f32",
    "maxnum": "max.f32",
    "minnum": "min.f32",
}


@triton.constexpr_function
def telling(form, ranks, first):
    """The instructions by which each workgroup tells its number to all, and combines theirs.

    Args:
      form: a key of `COMBINE`.
      ranks: workgroups of the cluster.
      first: whether these instructions are the first that tell something.
    """
    lines = [
        ".reg .b32 thread, place, there;",
        ".reg .pred some;",
        ".reg .f32 theirs;",
        f".shared .align 16 .b8 told[{4 * ranks}];",
        "mov.u32 thread, %tid.x;",
        "mov.u32 there, told;",
        "mov.u32 place, %cluster_ctarank;",
        "mad.lo.u32 place, place, 4, there;",
        f"setp.lt.u32 some, thread, {ranks};",
    ]
    # Their memory is there when they run.
    lines += ["barrier.cluster.wait.aligned;"] if first else []
    lines += [
        "@some mapa.shared::cluster.u32 there, place, thread;",
        "@some st.shared::cluster.f32 [there], $1;",
        "barrier.cluster.arrive.release.aligned;",
        "barrier.cluster.wait.acquire.aligned;",
        "ld.shared.f32 $0, [told];",
    ]
    for rank in range(1, ranks):
        lines += [f"ld.shared.f32 theirs, [told+{4 * rank}];"]
        lines += [f"{COMBINE[form]} $0, $0, theirs;"]
    return "{\n" + "\n".join(lines) + "\n}"


@triton.jit
def begin():
    """Says that this workgroup runs, which the others wait for before they tell it something."""
    tl.inline_asm_elementwise(
        "barrier.cluster.arrive.relaxed.aligned;\nmov.u32 $0, 0;",
        "=r",
        [],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )


@triton.jit
def told(x, form: tl.constexpr, ranks: tl.constexpr, first: tl.constexpr):
    """Combines one number of each workgroup of the cluster.

    Args:
      x: the number as a tile of one element, f32.
      form: a key of `COMBINE`.
      ranks: workgroups of the cluster.
      first: whether this is the first number that is told after `begin`.
    """
    return tl.inline_asm_elementwise(
        telling(form, ranks, first), "=&f,f", [x], dtype=tl.float32, is_pure=False, pack=1
    )
