"""A training loop that keeps its losses as tensors, each with everything from which it was
computed. The first argument is the duration in seconds. With a second argument, it keeps numbers instead."""

import sys
import time

import torch

as_tensors = len(sys.argv) < 3
model = torch.nn.Sequential(torch.nn.Linear(100, 200), torch.nn.ReLU(), torch.nn.Linear(200, 10)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data, target = torch.rand(64, 100, device="cuda"), torch.rand(64, 10, device="cuda")
losses = []
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    optimizer.zero_grad()
    output = model(data)
    loss = torch.nn.functional.mse_loss(output, target)
    loss.backward()
    optimizer.step()
    losses.append((loss, output) if as_tensors else loss.item())
print(f"{len(losses)} steps, reserved {torch.cuda.memory_reserved()}")
