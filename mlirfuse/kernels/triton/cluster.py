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

MOST = 8192
"""Numbers that a workgroup exchanges at a time: 32 KiB of its memory."""


@triton.constexpr_function
def exchange(form, ranks, threads, pack):
    """The instructions by which each thread combines its numbers with those of its peers.

    Args:
      form: a key of `COMBINE`.
      ranks: workgroups of the cluster.
      threads: of a workgroup.
      pack: numbers of a thread that are exchanged together.
    """
    lines = [
        ".reg .b32 thread, here, there;",
        ".reg .f32 theirs;",
        f".shared .align 16 .b8 exchanged[{4 * threads * min(pack, MOST // threads)}];",
        "mov.u32 thread, %tid.x;",
        "mov.u32 here, exchanged;",
        "mad.lo.u32 here, thread, 4, here;",
    ]
    for first in range(0, pack, MOST // threads):
        some = range(first, min(pack, first + MOST // threads))
        # A thread's numbers lie a row apart: the lanes of a warp meet no bank twice.
        lines += [f"st.shared.f32 [here+{4 * threads * (n - first)}], ${pack + n};" for n in some]
        lines += [
            "barrier.cluster.arrive.release.aligned;",
            "barrier.cluster.wait.acquire.aligned;",
        ]
        for rank in range(ranks):
            lines.append(f"mapa.shared::cluster.u32 there, here, {rank};")
            for n in some:
                place = f"[there+{4 * threads * (n - first)}]"
                if rank:
                    lines.append(f"ld.shared::cluster.f32 theirs, {place};")
                    lines.append(f"{COMBINE[form]} ${n}, ${n}, theirs;")
                else:
                    lines.append(f"ld.shared::cluster.f32 ${n}, {place};")
        # Nobody leaves, or writes its next numbers, before all have read.
        lines += ["barrier.cluster.arrive.aligned;", "barrier.cluster.wait.aligned;"]
    return "{\n" + "\n".join(lines) + "\n}"


@triton.constexpr_function
def registers(pack):
    """The registers of `exchange`: those that it writes, and those that it reads."""
    return ",".join(["=&f"] * pack + ["f"] * pack)


@triton.jit
def combined(x, form: tl.constexpr, ranks: tl.constexpr, threads: tl.constexpr, pack: tl.constexpr):
    """Combines a tile of f32 with those of the other workgroups of the cluster.

    Args:
      x: the tile, the same shape in every workgroup.
      form: a key of `COMBINE`.
      ranks: workgroups of the cluster.
      threads: of a workgroup.
      pack: numbers of a thread that are exchanged together; a power of two.
    """
    return tl.inline_asm_elementwise(
        exchange(form, ranks, threads, pack),
        registers(pack),
        [x],
        dtype=tl.float32,
        is_pure=False,
        pack=pack,
    )
