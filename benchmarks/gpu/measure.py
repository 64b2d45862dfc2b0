"""Checks every program against float64 and times it: IREE, with kernels, torch, torch.compile.

    python measure.py [NAME...] [--quick]

Needs a GPU of NVIDIA, iree-base-runtime, numpy and PyTorch. Run it in the folder that
`benchmarks.gpu.make` wrote. The table comes last. `call` is the wall time of one call that is
waited for; `gpu` is the time of its kernels by torch's profiler (CUPTI), `-` where that sees none.
Microseconds, medians.
"""

import statistics
import sys
import time
from pathlib import Path

import iree.runtime as rt
import numpy as np
import torch
from programs import PROGRAMS

here = Path(__file__).parent
rt.flags.parse_flags("--cuda_async_allocations=false")
rt._binding.disable_leak_checker()
DEVICE = rt.get_driver("cuda").create_device_by_uri("cuda", allocators=["caching"])
INSTANCE = rt.VmInstance()
KINDS = {"float16": rt.HalElementType.FLOAT_16, "bfloat16": rt.HalElementType.BFLOAT_16}
TOLERANCE = {"float16": 4e-3, "bfloat16": 3e-2}
REPEAT = 25 if "--quick" in sys.argv else 60


class Program:
    """A .vmfb with its inputs on the device."""

    def __init__(self, path, inputs, dtype):
        self.data = path.read_bytes()
        hal = rt.create_hal_module(INSTANCE, DEVICE)
        module = rt.VmModule.copy_buffer(INSTANCE, self.data)
        self.context = rt.VmContext(INSTANCE, [hal, module])
        self.function = module.lookup_function("main") or module.lookup_function("forward")
        self.module = module
        self.inputs = rt.VmVariantList(len(inputs))
        for x in inputs:
            bits = x.contiguous().view(torch.int16).cpu().numpy()
            view = DEVICE.allocator.allocate_buffer_copy(
                memory_type=rt.MemoryType.DEVICE_LOCAL,
                allowed_usage=rt.BufferUsage.DEFAULT,
                device=DEVICE,
                buffer=np.ascontiguousarray(bits),
                element_type=KINDS[dtype],
            )
            self.inputs.push_ref(view)

    def __call__(self):
        """Calls the program, and returns its results on the device."""
        results = rt.VmVariantList(2)
        self.context.invoke(self.function, self.inputs, results)
        return results

    def numbers(self, count):
        """The first results of a call, as float64 on the host."""
        results = self()
        found = []
        for i in range(count):
            view = results.get_as_object(i, rt.HalBufferView)
            host = rt.DeviceArray(DEVICE, view).to_host()
            found.append(torch.from_numpy(np.array(host, dtype=np.float64)))
        return found


def call_us(f):
    for _ in range(5):
        f()
    torch.cuda.synchronize()
    times = []
    for _ in range(REPEAT):
        began = time.perf_counter()
        f()
        times.append((time.perf_counter() - began) * 1e6)
    return statistics.median(times)


def gpu_us(f, calls=10):
    try:
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CUDA]) as found:
            for _ in range(calls):
                f()
            torch.cuda.synchronize()
        total = 0.0
        for event in found.events():
            if "memcpy" not in event.name.lower() and "memset" not in event.name.lower():
                total += getattr(event, "device_time_total", 0.0) or 0.0
        return total / calls if total else None
    except Exception:
        return None


def error(found, reference, dtype):
    """Largest difference over the tolerance of the type; above 1 is wrong."""
    worst = 0.0
    for a, b in zip(found, reference, strict=True):
        b = b.double().cpu()
        if a.shape != b.shape or not torch.equal(a.isnan(), b.isnan()):
            return float("inf")
        scale = max(1.0, b.nan_to_num().abs().max().item())
        worst = max(worst, (a - b).nan_to_num().abs().max().item() / scale)
    return worst / TOLERANCE[dtype]


def tuple_of(x):
    return x if isinstance(x, tuple) else (x,)


def main():
    chosen = [a for a in sys.argv[1:] if not a.startswith("-")] or list(PROGRAMS)
    rows = []
    for name in chosen:
        f, shapes, dtype, timed = PROGRAMS[name]
        torch.manual_seed(0)
        kind = getattr(torch, dtype)
        inputs = [torch.randn(s, device="cuda").to(kind) for s in shapes]
        if f.__name__.startswith(("linear", "matmul")):
            inputs[1] = (inputs[1].float() * shapes[0][-1] ** -0.5).to(kind)
        row = {"name": name}
        with torch.no_grad():
            reference = tuple_of(f(*(x.double() for x in inputs)))
            eager_error = error([x.double().cpu() for x in tuple_of(f(*inputs))], reference, dtype)
            reference = [x.to(kind) for x in reference]
            row["eager_err"] = eager_error
            for variant in ("fused", "kernels"):
                path = here / f"{name}.{variant}.vmfb"
                try:
                    program = Program(path, inputs, dtype)
                    row[f"{variant}_err"] = error(program.numbers(len(reference)), reference, dtype)
                    if timed:
                        row[variant] = call_us(program)
                        row[f"{variant}_gpu"] = gpu_us(program)
                except Exception as failure:
                    row[f"{variant}_said"] = str(failure).splitlines()[0][:160]
            if timed:

                def waited(g, inputs=inputs):
                    def call():
                        g(*inputs)
                        torch.cuda.synchronize()

                    return call

                row["eager"] = call_us(waited(f))
                row["eager_gpu"] = gpu_us(waited(f))
                try:
                    compiled = torch.compile(f)
                    row["compiled"] = call_us(waited(compiled))
                    row["compiled_gpu"] = gpu_us(waited(compiled))
                except Exception as failure:
                    row["compiled_said"] = str(failure).splitlines()[0][:160]
                torch._dynamo.reset()
        rows.append(row)
        print(name, {k: v for k, v in row.items() if k.endswith("said")} or "done", flush=True)
    print()
    print(torch.cuda.get_device_name(0), "torch", torch.__version__)
    print("err: largest error over the tolerance (wrong above 1); call/gpu in microseconds")
    head = "program", "err iree", "err kern", "err eager", "iree", "kernels", "eager", "compile"
    print(f"{head[0]:31}{head[1]:>9}{head[2]:>9}{head[3]:>10}", end="")
    print("".join(f"{h + ' call/gpu':>18}" for h in head[4:]))
    for row in rows:

        def number(key, form, row=row):
            value = row.get(key)
            return "-" if value is None else format(value, form)

        print(f"{row['name']:31}", end="")
        print(f"{number('fused_err', '.2f'):>9}{number('kernels_err', '.2f'):>9}", end="")
        print(f"{number('eager_err', '.2f'):>10}", end="")
        for key in ("fused", "kernels", "eager", "compiled"):
            text = f"{number(key, '.0f')}/{number(key + '_gpu', '.0f')}"
            print(f"{text:>18}", end="")
        print()


if __name__ == "__main__":
    main()
