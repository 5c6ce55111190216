"""A training loop in PyTorch that keeps GPU memory in lists: in a method, in the backward pass
(which runs on a thread of PyTorch's own) and in a Python thread.

What it keeps is larger than the segments that PyTorch's allocator shares among small tensors, so
each tensor has a segment of its own, and the line that took the segment is the line that keeps it.
"""

import threading

import torch

MIB = 1 << 20
held = []


class Keep(torch.autograd.Function):
    @staticmethod
    def forward(context, values):
        return values * 2

    @staticmethod
    def backward(context, gradient):
        held.append(torch.empty(48 * MIB, dtype=torch.uint8, device="cuda"))  # kept by Keep.backward
        return gradient * 2


class Trainer:
    def __init__(self):
        self.model = torch.nn.Linear(64, 64, device="cuda")
        self.optimiser = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.history = []

    def step(self, batch):
        self.optimiser.zero_grad()
        loss = Keep.apply(self.model(batch)).pow(2).mean()
        loss.backward()
        self.optimiser.step()
        self.history.append(torch.empty(64 * MIB, dtype=torch.uint8, device="cuda"))  # kept by Trainer.step
        return loss.detach()


def preload():
    held.append(torch.empty(96 * MIB, dtype=torch.uint8, device="cuda"))  # kept by preload


def main():
    trainer = Trainer()
    for _ in range(3):
        trainer.step(torch.randn(32, 64, device="cuda"))
    thread = threading.Thread(target=preload)
    thread.start()
    thread.join()
    torch.cuda.synchronize()


main()
