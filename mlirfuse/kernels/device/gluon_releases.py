"""Functions of Gluon whose names differ between the releases of Triton from 3.6 to 3.9."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.experimental.gluon.language.nvidia.hopper import mbarrier

if hasattr(async_copy, "async_load"):
    async_load = async_copy.async_load
else:
    async_load = async_copy.async_copy_global_to_shared


@gluon.jit
def allocate_barriers(count: gl.constexpr):
    """Allocates barriers of one CTA, which are not initialized.

    Args:
      count: their number.
    """
    return gl.allocate_shared_memory(gl.int64, [count, 1], mbarrier.MBarrierLayout())


if hasattr(gl, "inline_asm"):

    @gluon.jit
    def number_of_asm(text: gl.constexpr):
        """The i32 that assembly with effects writes to its operand `$0`."""
        return gl.inline_asm(text, "=r", (), gl.int32)

    @gluon.jit
    def sync_barrier(number: gl.constexpr, threads: gl.constexpr):
        """Waits at a barrier of a CTA until so many threads have reached it."""
        gl.inline_asm(f"bar.sync {number}, {threads};")

    @gluon.jit
    def arrive_barrier(number: gl.constexpr, threads: gl.constexpr):
        """Reaches such a barrier without waiting."""
        gl.inline_asm(f"bar.arrive {number}, {threads};")

else:

    @gluon.jit
    def number_of_asm(text: gl.constexpr):
        """The i32 that assembly with effects writes to its operand `$0`."""
        unused = [gl.program_id(0)]
        return gl.inline_asm_elementwise(text, "=r,r", unused, gl.int32, is_pure=False, pack=1)

    @gluon.jit
    def sync_barrier(number: gl.constexpr, threads: gl.constexpr):
        """Waits at a barrier of a CTA until so many threads have reached it."""
        text: gl.constexpr = f"bar.sync {number}, {threads}; mov.u32 $0, 0;"
        unused = [gl.program_id(0)]
        gl.inline_asm_elementwise(text, "=r,r", unused, gl.int32, is_pure=False, pack=1)

    @gluon.jit
    def arrive_barrier(number: gl.constexpr, threads: gl.constexpr):
        """Reaches such a barrier without waiting."""
        text: gl.constexpr = f"bar.arrive {number}, {threads}; mov.u32 $0, 0;"
        unused = [gl.program_id(0)]
        gl.inline_asm_elementwise(text, "=r,r", unused, gl.int32, is_pure=False, pack=1)
