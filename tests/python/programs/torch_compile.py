"""Trains a compiled model in PyTorch: `torch.compile` with its default back end.

run clean: exec; exec --exact
run list: exec; exec --exact
run closure: exec --exact
run malloc: exec
run stream: exec
"""

import ctypes
import sys
import threading

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


# For allocations in the generated code, the compiler has only this first line of the function.
@torch.compile  # holds[list]: 3 x 64 MiB; holds[closure]: 1 x 96 MiB
def squares_of_sine(values):
    return torch.sin(values).square() + values


def train():
    model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 16)).cuda()
    compiled = torch.compile(model)
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(10):
        optimiser.zero_grad()
        loss = compiled(torch.randn(64, 256, device="cuda")).square().mean()
        loss.backward()
        optimiser.step()
    return loss.item()


def results(count):
    values = torch.zeros(16 * MIB, device="cuda")
    for _ in range(count):
        kept.append(squares_of_sine(values))


def closure():
    values = torch.zeros(24 * MIB, device="cuda")
    kept_by_closure = squares_of_sine(values)
    threading.Thread(target=lambda: (threading.Event().wait(), kept_by_closure), daemon=True).start()


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


def main(variant):
    train()
    if variant == "list":
        results(3)
    elif variant == "closure":
        closure()
    elif variant == "malloc":
        malloc()
    elif variant == "stream":
        streams()
    torch.cuda.synchronize()


if __name__ == "__main__":
    main(sys.argv[1])
