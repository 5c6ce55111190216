"""Calls the driver through ctypes, without any framework.

run clean: exec
run malloc: exec
run stream: exec
run list: exec
run closure: exec
run growth: exec --every 0.2
"""

import ctypes
import os
import signal
import sys
import threading
import time

MIB = 1 << 20
cuda = ctypes.CDLL("libcuda.so.1")
kept = []


def must(error):
    if error:
        raise RuntimeError(f"CUDA error {error}")


class Buffer:
    """Device memory that is freed with its last reference, like the memory of a tensor."""

    def __init__(self, size):
        self.address = ctypes.c_uint64()
        must(cuda.cuMemAlloc_v2(ctypes.byref(self.address), ctypes.c_size_t(size)))  # holds[list]: 3 x 64 MiB; leaks[closure]: 1 x 96 MiB; grows[growth]: 40 x 1 MiB

    def __del__(self, free=cuda.cuMemFree_v2):
        free(self.address)


class Slow:
    """An object that is slow to destroy when the interpreter shuts down."""

    def __del__(self, sleep=time.sleep):
        sleep(0.5)


def work():
    for _ in range(10):
        Buffer(64 * MIB)
    stream = ctypes.c_void_p()
    must(cuda.cuStreamCreate(ctypes.byref(stream), 0))
    must(cuda.cuStreamDestroy_v2(stream))


def malloc():
    for _ in range(2):
        address = ctypes.c_uint64()
        must(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(12345)))  # leaks[malloc]: 2 x 12345 B


def streams():
    for _ in range(3):
        stream = ctypes.c_void_p()
        must(cuda.cuStreamCreate(ctypes.byref(stream), 0))  # leaks[stream]: 3 x stream


def main(variant):
    work()
    if variant == "malloc":
        malloc()
    elif variant == "interrupted":
        malloc()
        # A shell that starts tests in the background lets them ignore the signal.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)
    elif variant == "stream":
        streams()
    elif variant == "list":
        kept.extend(Buffer(64 * MIB) for _ in range(3))
    elif variant == "closure":
        # The thread waits forever, and its closure keeps what it refers to.
        buffer = Buffer(96 * MIB)
        threading.Thread(target=lambda: threading.Event().wait() and buffer, daemon=True).start()
    elif variant == "growth":
        kept.append(Slow())
        for _ in range(40):
            kept.append(Buffer(MIB))
            time.sleep(0.06)


must(cuda.cuInit(0))
device, context = ctypes.c_int(), ctypes.c_void_p()
must(cuda.cuDeviceGet(ctypes.byref(device), 0))
must(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
must(cuda.cuCtxSetCurrent(context))
main(sys.argv[1])
