"""Leaks on the driver's own calls: from nested functions, a generator and a thread."""

import ctypes
import threading

cuda = ctypes.CDLL("libcuda.so.1")


def must(error):
    if error:
        raise RuntimeError(f"CUDA error {error}")


class Trainer:
    def __init__(self):
        self.history = []

    def step(self):
        moment = zeros(1 << 19)
        self.history.append(zeros(1 << 20))
        must(cuda.cuMemFree_v2(moment))

    def batches(self):
        while True:
            yield (
                # A report names the line below.
                zeros(1 << 21)
            )


def zeros(size):
    address = ctypes.c_uint64()
    must(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)))
    return address


def preload(context):
    must(cuda.cuCtxSetCurrent(context))
    zeros(1 << 22)


def main():
    must(cuda.cuInit(0))
    context = ctypes.c_void_p()
    must(cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0))
    trainer = Trainer()
    for _ in range(3):
        trainer.step()
    next(trainer.batches())
    thread = threading.Thread(target=preload, args=(context,))
    thread.start()
    thread.join()


main()
