"""PyTorch's side of tiny_model.rs: reads lines `WORKLOAD ROUNDS`, and answers each with the microseconds per round."""

import sys
import time

import torch


class TinyModel(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear1 = torch.nn.Linear(100, 200)
        self.activation = torch.nn.ReLU()
        self.linear2 = torch.nn.Linear(200, 10)
        self.softmax = torch.nn.Softmax(dim=0)

    def forward(self, x):
        return self.softmax(self.linear2(self.activation(self.linear1(x))))


def inference():
    model, batch = TinyModel().cuda(), torch.rand(64, 100, device="cuda")

    def round():
        with torch.inference_mode():
            model(batch)

    return round


def training(optimizer):
    model = TinyModel().cuda()
    inputs, targets = torch.rand(64, 100, device="cuda"), torch.rand(64, 10, device="cuda")
    optimizer = optimizer(model.parameters())

    def round():
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()

    return round


def replayed_training():
    """The step of `training` with SGD as one graph, warmed up as in PyTorch's notes on graphs."""
    model = TinyModel().cuda()
    inputs, targets = torch.rand(64, 100, device="cuda"), torch.rand(64, 10, device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step():
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


WORKLOADS = {
    "inference": inference(),
    "training_sgd": training(lambda parameters: torch.optim.SGD(parameters, lr=0.01)),
    "training_sgd_graph": replayed_training(),
    "training_adam": training(lambda parameters: torch.optim.Adam(parameters)),
    "allocation": lambda: torch.empty(6400, device="cuda"),
}

for line in sys.stdin:
    name, rounds = line.split()
    round = WORKLOADS[name]
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(int(rounds)):
        round()
    torch.cuda.synchronize()
    print((time.perf_counter() - start) * 1e6 / int(rounds), flush=True)
