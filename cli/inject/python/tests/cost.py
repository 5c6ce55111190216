"""Measures the cost of a backtrace with more and more lines of Python: python cost.py LIBRARY

Run this by hand, with the probe that `cargo build --release` makes.
"""

import ctypes
import statistics
import sys
import threading

probe = ctypes.CDLL(sys.argv[1])
probe.probe_cost.argtypes = [ctypes.c_uint32]
probe.probe_cost.restype = ctypes.c_uint64


def cost(depth, times):
    return cost(depth - 1, times) if depth else probe.probe_cost(times)


def measure(name, times):
    for depth in 0, 10, 30:
        rounds = [cost(depth, times) for _ in range(15)]
        print(f"{name}: {statistics.median(rounds)} ns a stack with {depth + 4} lines")


measure("without lines", 20_000)
room = ctypes.create_string_buffer(200)
probe.probe_install(room, len(room))
print(room.value.decode())
measure("main thread", 20_000)
thread = threading.Thread(target=measure, args=("another thread", 1000))
thread.start()
thread.join()
