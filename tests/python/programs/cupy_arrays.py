"""Computes with CuPy: its pool, random numbers, a product, an FFT, its own kernel, a stream and events.

run clean: exec
run list: exec
run closure: exec
run malloc: exec
run stream: exec
run unpooled: exec
run growth: exec --every 0.5
"""

import sys
import threading
import time

try:
    import cupy
except ImportError as why:
    print(f"needs CuPy: {why}")
    sys.exit(77)
try:
    has_gpu = cupy.cuda.runtime.getDeviceCount() > 0
except cupy.cuda.runtime.CUDARuntimeError:
    has_gpu = False
if not has_gpu:
    print("CuPy has no GPU here")
    sys.exit(77)

MIB = 1 << 20
kept = []
twice = cupy.ElementwiseKernel("float32 x", "float32 y", "y = 2 * x", "twice")


def work():
    with cupy.cuda.Stream(non_blocking=True) as stream:
        values = cupy.random.rand(512, 512, dtype=cupy.float32)
        product = twice(values @ values)
        spectrum = cupy.fft.fft(product)
        started, ended = cupy.cuda.Event(), cupy.cuda.Event()
        started.record(stream)
        total = float(cupy.abs(spectrum).sum())
        ended.record(stream)
        stream.synchronize()
    return total


def arrays():
    for _ in range(3):
        kept.append(cupy.zeros(16 * MIB, dtype=cupy.float32))  # holds[list]: 3 x 64 MiB


def closure():
    kept_by_closure = cupy.zeros(24 * MIB, dtype=cupy.float32)  # holds[closure]: 1 x 96 MiB
    threading.Thread(target=lambda: (threading.Event().wait(), kept_by_closure), daemon=True).start()


def malloc():
    for _ in range(2):
        cupy.cuda.runtime.malloc(12345)  # leaks[malloc]: 2 x 12345 B


def streams():
    for _ in range(3):
        cupy.cuda.runtime.streamCreate()  # leaks[stream]: 3 x stream


def unpooled():
    """Takes each array from the driver, as CuPy documents, and keeps it in the interpreter's globals."""
    cupy.cuda.set_allocator(None)
    for _ in range(3):
        kept.append(cupy.zeros(MIB, dtype=cupy.float32))  # holds[unpooled]: 3 x 4 MiB


def growth():
    for _ in range(120):
        kept.append(cupy.zeros(MIB // 2, dtype=cupy.float32))  # grows~[growth]: 120 x 2 MiB
        time.sleep(0.05)


def main(variant):
    work()
    plants = {
        "list": arrays,
        "closure": closure,
        "malloc": malloc,
        "stream": streams,
        "unpooled": unpooled,
        "growth": growth,
    }
    plants.get(variant, lambda: None)()
    cupy.cuda.Device().synchronize()


main(sys.argv[1])
