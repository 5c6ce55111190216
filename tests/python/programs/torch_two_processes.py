"""Trains in PyTorch in two processes: with NCCL on two GPUs, and with gloo on one.

run clean: exec; exec --exact
run clean-not-destroyed: exec
run list: exec; exec --exact
run malloc: exec
run stream: exec
"""

import ctypes
import os
import sys
import tempfile

try:
    import torch
    import torch.distributed as distributed
except ImportError as why:
    print(f"needs PyTorch: {why}")
    sys.exit(77)

MIB = 1 << 20
kept = []


def must(error):
    assert error == 0, error


def rank_main(rank, variant, meeting, backend):
    torch.cuda.set_device(rank if backend == "nccl" else 0)
    distributed.init_process_group(backend, init_method=f"file://{meeting}", rank=rank, world_size=2)
    train(rank)
    if variant == "list":
        for _ in range(3):
            kept.append(torch.empty(64 * MIB, dtype=torch.uint8, device="cuda"))  # holds[list]: 6 x 64 MiB
    elif variant == "malloc" and rank == 1:
        malloc()
    elif variant == "stream" and rank == 1:
        streams()
    torch.cuda.synchronize()
    distributed.barrier()
    if variant != "clean-not-destroyed":
        distributed.destroy_process_group()


def train(rank):
    model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 16)).cuda()
    model = torch.nn.parallel.DistributedDataParallel(model)
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(10):
        optimiser.zero_grad()
        model(torch.randn(64, 256, device="cuda")).square().mean().backward()
        optimiser.step()
    total = torch.full((1,), float(rank), device="cuda")
    distributed.all_reduce(total)
    assert total.item() == 1.0, total


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
    backend = "nccl" if torch.cuda.device_count() > 1 else "gloo"
    print(f"two processes with {backend}")
    with tempfile.TemporaryDirectory() as folder:
        meeting = os.path.join(folder, "meeting")
        torch.multiprocessing.spawn(rank_main, args=(variant, meeting, backend), nprocs=2)


if __name__ == "__main__":
    main(sys.argv[1])
