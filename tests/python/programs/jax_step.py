"""Repeats a jitted gradient step in JAX.

Without --exact it takes the device's memory almost completely, so no two of these run at once.

run clean: exec; exec --exact
run list: exec --exact
run closure: exec --exact
run malloc: exec; exec --exact
run stream: exec --exact
run growth: exec --exact --every 0.5
"""

import ctypes
import sys
import threading
import time

try:
    import jax
    import jax.numpy as jnp
except ImportError as why:
    print(f"needs JAX: {why}")
    sys.exit(77)
if jax.default_backend() != "gpu":
    print(f"JAX has no GPU here; it uses {jax.default_backend()}")
    sys.exit(77)

MIB = 1 << 20
kept = []


def loss(weights, batch):
    return jnp.square(jnp.tanh(batch @ weights)).mean()


@jax.jit
def step(weights, batch):
    return weights - 0.01 * jax.grad(loss)(weights, batch)


@jax.jit
def larger(values, number):
    return values + number


def train():
    weights = jnp.ones((256, 256))
    key = jax.random.key(0)
    for _ in range(50):
        key, part = jax.random.split(key)
        weights = step(weights, jax.random.normal(part, (64, 256)))
    return float(weights.sum())


def arrays():
    values = jnp.zeros(16 * MIB, dtype=jnp.float32)
    for number in range(3):
        kept.append(larger(values, float(number)))  # holds[list]: 3 x 64 MiB physical; holds[list]: 3 x address range
    jax.block_until_ready(kept)


def closure():
    values = jnp.zeros(24 * MIB, dtype=jnp.float32)
    kept_by_closure = jax.block_until_ready(larger(values, 1.0))  # leaks[closure]: 1 x 96 MiB physical; leaks[closure]: 1 x address range
    threading.Thread(target=lambda: (threading.Event().wait(), kept_by_closure), daemon=True).start()


def in_primary_context():
    """Returns the driver, after making the context that XLA uses current on this thread."""
    cuda = ctypes.CDLL("libcuda.so.1")
    device, context = ctypes.c_int(), ctypes.c_void_p()
    assert cuda.cuDeviceGet(ctypes.byref(device), 0) == 0
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
    assert cuda.cuCtxSetCurrent(context) == 0
    return cuda


def malloc():
    cuda = in_primary_context()
    for _ in range(2):
        address = ctypes.c_uint64()
        assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(12345)) == 0  # leaks[malloc]: 2 x 12345 B


def streams():
    cuda = in_primary_context()
    for _ in range(3):
        stream = ctypes.c_void_p()
        assert cuda.cuStreamCreate(ctypes.byref(stream), 0) == 0  # leaks[stream]: 3 x stream


def growth():
    values = jnp.zeros(MIB // 2, dtype=jnp.float32)
    for number in range(120):
        kept.append(larger(values, float(number)))  # grows[growth]: 120 x 2 MiB physical; grows[growth]: 120 x address range; grows[growth]: 120 x event
        time.sleep(0.05)


def main(variant):
    train()
    plants = {"list": arrays, "closure": closure, "malloc": malloc, "stream": streams, "growth": growth}
    plants.get(variant, lambda: None)()


main(sys.argv[1])
