"""Reductions across the CTAs of a thread block cluster, through distributed shared memory.

CTAs of a cluster run at the same time on neighbouring multiprocessors and write each other's shared
memory (PTX ISA, `mapa` and `barrier.cluster`). Every CTA gets the same results: partial ones are
combined in the order of the CTAs' ranks.
"""

import triton
import triton.language as tl

COMBINERS = {
    "sum": "add.f32",
    "max": "max.NaN.f32",
    "min": "min.NaN.f32",
    "maxnum": "max.f32",
    "minnum": "min.f32",
    "product": "mul.f32",
}


@triton.constexpr_function
def exchange_asm(combiner, cluster_size, first):
    """The instructions by which each CTA writes its number to all, and combines all numbers.

    Args:
      combiner: a key of `COMBINERS`.
      cluster_size: CTAs of the cluster.
      first: whether this is the first exchange after `announce`.
    """
    lines = [
        ".reg .b32 thread, slot, address;",
        ".reg .pred has_peer;",
        ".reg .f32 partial;",
        f".shared .align 16 .b8 partials[{4 * cluster_size}];",
        "mov.u32 thread, %tid.x;",
        "mov.u32 address, partials;",
        "mov.u32 slot, %cluster_ctarank;",
        "mad.lo.u32 slot, slot, 4, address;",
        f"setp.lt.u32 has_peer, thread, {cluster_size};",
    ]
    # The shared memory of a CTA exists once it runs.
    lines += ["barrier.cluster.wait.aligned;"] if first else []
    lines += [
        "@has_peer mapa.shared::cluster.u32 address, slot, thread;",
        "@has_peer st.shared::cluster.f32 [address], $1;",
        "barrier.cluster.arrive.release.aligned;",
        "barrier.cluster.wait.acquire.aligned;",
        "ld.shared.f32 $0, [partials];",
    ]
    for rank in range(1, cluster_size):
        lines += [f"ld.shared.f32 partial, [partials+{4 * rank}];"]
        lines += [f"{COMBINERS[combiner]} $0, $0, partial;"]
    return "{\n" + "\n".join(lines) + "\n}"


@triton.jit
def announce():
    """Announces that this CTA runs; the others wait for it before they write to its memory."""
    tl.inline_asm_elementwise(
        "barrier.cluster.arrive.relaxed.aligned;\nmov.u32 $0, 0;",
        "=r",
        [],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )


@triton.jit
def all_reduce(x, combiner: tl.constexpr, cluster_size: tl.constexpr, first: tl.constexpr):
    """Combines one number of each CTA of the cluster.

    Args:
      x: the number as a tile of one element, f32.
      combiner: a key of `COMBINERS`.
      cluster_size: CTAs of the cluster.
      first: whether this is the first exchange after `announce`.
    """
    # A scalar: Triton 3.6 exchanges a tile once for each of the registers that it has in a thread.
    found = tl.inline_asm_elementwise(
        exchange_asm(combiner, cluster_size, first),
        "=&f,f",
        [tl.sum(x)],
        dtype=tl.float32,
        is_pure=False,
        pack=1,
    )
    return tl.full([1, 1], found, tl.float32)
