"""Trains a small model in PyTorch, eagerly.

run clean: exec; exec --exact
run list: exec; exec --exact
run losses: exec --exact
run closure: exec; exec --exact
run malloc: exec; exec --exact
run stream: exec
run bindings: exec
run growth: exec --every 0.5; exec --exact --every 0.5
"""

import ctypes
import sys
import threading
import time

try:
    import torch
except ImportError as why:
    print(f"needs PyTorch: {why}")
    sys.exit(77)
if not torch.cuda.is_available():
    print("PyTorch has no GPU here")
    sys.exit(77)

MIB = 1 << 20
kept = []


class Trainer:
    def __init__(self):
        layers = [torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 16)]
        self.model = torch.nn.Sequential(*layers).cuda()
        self.optimiser = torch.optim.Adam(self.model.parameters(), lr=1e-3)

    def step(self, variant):
        batch, target = torch.randn(64, 256, device="cuda"), torch.randn(64, 16, device="cuda")
        self.optimiser.zero_grad()
        difference = self.model(batch) - target
        squares = difference.square()
        loss = squares.mean()  # holds*[losses]: 20 x 4 B
        loss.backward()
        self.optimiser.step()
        if variant == "losses":
            kept.append(loss.detach())
        return loss.item()


def tensors():
    for _ in range(3):
        kept.append(torch.empty(64 * MIB, dtype=torch.uint8, device="cuda"))  # holds[list]: 3 x 64 MiB


def closure():
    kept_by_closure = torch.empty(96 * MIB, dtype=torch.uint8, device="cuda")  # holds[closure]: 1 x 96 MiB

    def never_ends():
        threading.Event().wait()
        return kept_by_closure

    threading.Thread(target=never_ends, daemon=True).start()


def malloc():
    cuda = ctypes.CDLL("libcuda.so.1")
    for _ in range(2):
        address = ctypes.c_uint64()
        assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(12345)) == 0  # leaks[malloc]: 2 x 12345 B


def streams():
    cuda = ctypes.CDLL("libcuda.so.1")
    for _ in range(3):
        stream = ctypes.c_void_p()
        assert cuda.cuStreamCreate(ctypes.byref(stream), 0) == 0  # leaks[stream]: 3 x stream


def bindings():
    """Leaks through PyTorch's own bindings of the runtime, which pass resources on without keeping them."""
    runtime = torch.cuda.cudart()
    memory = torch.empty(16 * MIB, dtype=torch.uint8)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(memory))
    runtime.cudaHostRegister(memory.data_ptr(), 16 * MIB, 0)  # leaks[bindings]: 1 x 16 MiB registered
    stream = ctypes.c_uint64()
    runtime.cudaStreamCreate(ctypes.addressof(stream))  # leaks[bindings]: 1 x stream


def growth():
    # This allocation is constant, and larger than everything that grows.
    model = torch.empty(512 * MIB, dtype=torch.uint8, device="cuda")
    for _ in range(200):
        kept.append(torch.empty(2 * MIB, dtype=torch.uint8, device="cuda"))  # grows*[growth]: 200 x 2 MiB; grows~[growth]: 20 x 20 MiB
        time.sleep(0.03)
    del model


def main(variant):
    trainer = Trainer()
    for _ in range(20):
        trainer.step(variant)
    plants = {
        "list": tensors,
        "closure": closure,
        "malloc": malloc,
        "stream": streams,
        "bindings": bindings,
        "growth": growth,
    }
    plants.get(variant, lambda: None)()
    torch.cuda.synchronize()


main(sys.argv[1])
