"""Captures a training step in PyTorch into a CUDA graph and replays it.

Not with --exact: memory cannot be taken from the driver during a capture.

run clean: exec
run list: exec
run closure: exec
run malloc: exec
run stream: exec
run graph: exec
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


class Step:
    def __init__(self):
        layers = [torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 16)]
        self.model = torch.nn.Sequential(*layers).cuda()
        self.optimiser = torch.optim.SGD(self.model.parameters(), lr=1e-3)
        self.batch = torch.randn(64, 256, device="cuda")
        warm = torch.cuda.Stream()
        warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm):
            for _ in range(3):
                self.eager()
        torch.cuda.current_stream().wait_stream(warm)
        self.graph = torch.cuda.CUDAGraph()
        self.optimiser.zero_grad(set_to_none=True)
        with torch.cuda.graph(self.graph):  # leaks[closure]: 1 x exec graph
            self.loss = self.eager()

    def eager(self):
        self.optimiser.zero_grad(set_to_none=True)
        loss = self.model(self.batch).square().mean()
        loss.backward()
        self.optimiser.step()
        return loss

    def replay(self):
        self.batch.copy_(torch.randn(64, 256, device="cuda"))
        self.graph.replay()


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


def graphs():
    cuda = ctypes.CDLL("libcuda.so.1")
    for _ in range(2):
        graph = ctypes.c_void_p()
        assert cuda.cuGraphCreate(ctypes.byref(graph), 0) == 0  # leaks[graph]: 2 x graph handle


def main(variant):
    step = Step()
    for _ in range(20):
        step.replay()
    if variant == "list":
        for _ in range(3):
            step.replay()
            kept.append(step.loss.expand(16 * MIB).clone())  # holds[list]: 3 x 64 MiB
    elif variant == "closure":
        threading.Thread(target=lambda: (threading.Event().wait(), step), daemon=True).start()
    elif variant == "malloc":
        malloc()
    elif variant == "stream":
        streams()
    elif variant == "graph":
        graphs()
    torch.cuda.synchronize()


main(sys.argv[1])
