"""Trains in PyTorch with a DataLoader whose workers are processes, and with pinned memory.

run clean: exec; exec --exact
run clean-spawn: exec; exec --exact
run list: exec; exec --exact
run worker: exec
run malloc: exec
run stream: exec
"""

import ctypes
import sys

try:
    import torch
    from torch.utils.data import DataLoader, TensorDataset
except ImportError as why:
    print(f"needs PyTorch: {why}")
    sys.exit(77)

MIB = 1 << 20
kept = []


def must(error):
    assert error == 0, error


def takes_in_worker(_number):
    """Creates a context of the worker's own, and leaves memory in it."""
    cuda = ctypes.CDLL("libcuda.so.1")
    device, context, address = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    must(cuda.cuInit(0))
    must(cuda.cuDeviceGet(ctypes.byref(device), 0))
    must(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
    must(cuda.cuCtxSetCurrent(context))
    must(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(8 * MIB)))  # leaks[worker]: 4 x 8 MiB


def loader(variant):
    data = TensorDataset(torch.randn(512, 256), torch.randn(512, 16))
    spawned = variant in ("clean-spawn", "worker")
    return DataLoader(
        data,
        batch_size=64,
        shuffle=True,
        num_workers=2,
        pin_memory=True,
        multiprocessing_context="spawn" if spawned else "fork",
        worker_init_fn=takes_in_worker if variant == "worker" else None,
    )


def train(variant):
    model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 16)).cuda()
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(2):
        for batch, target in loader(variant):
            batch = batch.to("cuda", non_blocking=True)
            target = target.to("cuda", non_blocking=True)
            optimiser.zero_grad()
            (model(batch) - target).square().mean().backward()
            optimiser.step()
    if variant == "list":
        for batch, _ in DataLoader(TensorDataset(torch.zeros(3, 3 * MIB)), num_workers=1, collate_fn=first):
            kept.append(batch.to("cuda"))  # holds[list]: 3 x 12 MiB


def first(rows):
    """Returns the sample itself, without a label."""
    return rows[0][0], None


def malloc():
    cuda = ctypes.CDLL("libcuda.so.1")
    for _ in range(2):
        address = ctypes.c_uint64()
        must(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(12345)))  # leaks[malloc]: 2 x 12345 B


def streams():
    cuda = ctypes.CDLL("libcuda.so.1")
    for _ in range(3):
        stream = ctypes.c_void_p()
        must(cuda.cuStreamCreate(ctypes.byref(stream), 0))  # leaks[stream]: 3 x stream


def main(variant):
    if not torch.cuda.is_available():
        print("PyTorch has no GPU here")
        sys.exit(77)
    train(variant)
    if variant == "malloc":
        malloc()
    elif variant == "stream":
        streams()
    torch.cuda.synchronize()


if __name__ == "__main__":
    main(sys.argv[1])
