"""Inference with a small model, after which everything is dropped. What remains is never freed."""

import gc

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


model = TinyModel().cuda()
batch = torch.rand(64, 100).cuda()
with torch.inference_mode():
    output = model(batch)
del model, batch, output
gc.collect()
torch.cuda.empty_cache()
print(f"allocated {torch.cuda.memory_allocated()} reserved {torch.cuda.memory_reserved()}")
