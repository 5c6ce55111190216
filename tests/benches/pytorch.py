"""Measures what PyTorch's own ways of finding leaks cost, for comparison with the benchmark `cost` on the same GPU.

Prints Markdown with the medians of 30 blocks. The ways take turns.
"""

import statistics
import time
import unittest

import torch

BLOCKS = 30


def microseconds(body, rounds):
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(rounds):
        body()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) * 1e6 / rounds


def medians(ways):
    """Returns the median time of each way: a name, a function that prepares it, a body, and the body's runs in a block."""
    times = {name: [] for name, *_ in ways}
    for block in range(BLOCKS + 1):
        for name, ready, body, rounds in ways:
            ready()
            taken = microseconds(body, rounds)
            # The first block is a warm-up and does not count.
            if block:
                times[name].append(taken)
    return {name: statistics.median(blocks) for name, blocks in times.items()}


def history(enabled, stacks="python"):
    record = torch.cuda.memory._record_memory_history
    return lambda: record(enabled, stacks=stacks, max_entries=100_000)


def empty():
    torch.empty(6400, device="cuda")


def checked():
    from torch.testing._internal.common_utils import CudaMemoryLeakCheck

    with CudaMemoryLeakCheck(unittest.TestCase(), "empty"):
        pass


def unchecked():
    pass


def print_rows(title, ways):
    try:
        for name, median in medians(ways).items():
            print(f"| {title}{name} | {median:.2f} |")
    except Exception as error:
        print(f"| {title}not measured | {error!r} |")


empty()
print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}\n")
print("| what, µs | PyTorch |\n| --- | --: |")
print_rows(
    "one allocation and its free, ",
    [
        ("plain", history(None), empty, 2000),
        ("with history and Python stacks", history("all", "python"), empty, 2000),
        ("with history and all stacks", history("all", "all"), empty, 2000),
    ],
)
history(None)()
print_rows("an empty test, ", [("plain", unchecked, unchecked, 2), ("under CudaMemoryLeakCheck", unchecked, checked, 2)])
