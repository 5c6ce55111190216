"""Takes backtraces in many kinds of Python code and compares them with those of Python itself.

`check(stack(), here())`, always on one line, compares the stack from the reader with Python's own
stack on that line: the file, line and function of each frame, and the column where Python knows it.
The column of the innermost frame is not compared, because the two calls have different columns.
"""

import asyncio
import contextlib
import ctypes
import functools
import gc
import sys
import sysconfig
import threading

HAS_NAMES = sys.version_info >= (3, 11)
FRAMES = 64

probe = ctypes.CDLL(sys.argv[1])
for name in ("probe_install", "probe_stack"):
    function = getattr(probe, name)
    function.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    function.restype = ctypes.c_size_t
buffers = threading.local()


def text(function):
    if not hasattr(buffers, "room"):
        buffers.room = ctypes.create_string_buffer(1 << 16)
    length = function(buffers.room, len(buffers.room))
    return buffers.room.raw[:length].decode()


# Called through `text`, so that both backtraces have the same frames of this file, which are left
# out by name.
def stack():
    rows = [line.split("\t") for line in text(probe.probe_stack).splitlines()]
    frames = [row for row in rows if row[6] == "Python"]
    return [(row[0], row[1], row[2], row[3]) for row in frames if row[3] not in ("text", "stack")]


def column(frame):
    if not HAS_NAMES:
        return ""
    positions = list(frame.f_code.co_positions())
    start = positions[frame.f_lasti // 2][2]
    return "" if start is None else str(start + 1)


def here():
    frame = sys._getframe(1)
    frames = []
    while frame is not None:
        code = frame.f_code
        name = code.co_qualname if HAS_NAMES else code.co_name
        line = "" if frame.f_lineno is None else str(frame.f_lineno)
        frames.append((code.co_filename, line, column(frame), name))
        frame = frame.f_back
    return frames


LIBRARY = sysconfig.get_paths()["stdlib"]


def is_library(frame):
    return frame[0].startswith((LIBRARY, "<frozen "))


checked = 0


def check(taken, expected):
    global checked
    # The test's own functions `text` and `stack` take up two frames.
    expected = expected[: FRAMES - 2]
    taken = taken[: FRAMES - 2]
    # The interpreter's own frames at the start of a thread are not part of a call site.
    while expected and is_library(expected[-1]):
        expected.pop()
    while taken and is_library(taken[-1]):
        taken.pop()
    # The innermost column belongs to the other call on the line.
    without = lambda frames: [f[:2] + ("",) + f[3:] if at == 0 else f for at, f in enumerate(frames)]
    if without(taken) != without(expected):
        for pair in zip(without(taken), without(expected)):
            print("same" if pair[0] == pair[1] else "DIFFERENT", *pair)
        raise SystemExit(f"{len(taken)} frames were read where Python has {len(expected)}")
    assert taken, "nothing was read"
    checked += 1


def nested(depth):
    if depth == 0:
        check(stack(), here())
    else:
        nested(depth - 1)


def generator():
    for _ in range(2):
        check(stack(), here())
        yield
    yield from another()


def another():
    check(stack(), here())
    yield


async def coroutine():
    check(stack(), here())
    await asyncio.sleep(0)
    check(stack(), here())
    async with manager():
        check(stack(), here())
    return [check(stack(), here()) async for _ in agen()]


@contextlib.asynccontextmanager
async def manager():
    check(stack(), here())
    yield
    check(stack(), here())


async def agen():
    check(stack(), here())
    yield


async def many():
    await asyncio.gather(*(coroutine() for _ in range(3)))


class Trainer:
    """Has methods, properties and comparisons that C code calls."""

    def __init__(self):
        check(stack(), here())

    @property
    def loss(self):
        check(stack(), here())
        return 0

    @functools.lru_cache(maxsize=None)
    def cached(self):
        check(stack(), here())

    def __lt__(self, other):
        check(stack(), here())
        return False

    def __del__(self):
        check(stack(), here())

    @staticmethod
    def größe():
        class Inner:
            check(stack(), here())

            def 方法(self):
                check(stack(), here())

        Inner().方法()


def called_back():
    callback = ctypes.CFUNCTYPE(None)(lambda: nested(3))
    callback()
    compare = ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int)
    )

    def order(left, right):
        check(stack(), here())
        return left[0] - right[0]

    numbers = (ctypes.c_int * 3)(3, 1, 2)
    libc = ctypes.CDLL(None)
    libc.qsort(numbers, 3, ctypes.sizeof(ctypes.c_int), compare(order))
    assert list(numbers) == [1, 2, 3]


def multiple_lines(
    argument=None,
):
    check(
        stack(
        ), here()) if sys.version_info < (3, 9) else check(stack(), here())
    try:
        raise ValueError
    except ValueError:
        check(stack(), here())
    finally:
        with contextlib.suppress(KeyError):
            check(stack(), here())
            raise KeyError
    [check(stack(), here()) for _ in range(2)]
    set(check(stack(), here()) for _ in range(2))
    sorted([1, 2], key=lambda _: check(stack(), here()) or 0)


def rewritten():
    """Code objects that replace each other at the same address, with the same names and first lines."""
    for round in range(400):
        lines = "\n" * (round % 7)
        name = f"made_{round % 3}.py"
        source = f"def made(check, stack, here):\n    x = 1{lines}\n    check(stack(), here())\n"
        scope = {}
        exec(compile(source, name, "exec"), scope)
        scope["made"](check, stack, here)
        scope["made"](check, stack, here)
        del scope, source
        if round % 50 == 0:
            gc.collect()
    # A function whose code replaces that of another function.
    def one():
        check(stack(), here())

    def two():
        check(stack(), here())

    one()
    one.__code__ = two.__code__
    one()


def long_function():
    lines = ["def long(check, stack, here):"]
    lines += [f"    x{number} = [{number}, 'a', {{}}]" for number in range(3000)]
    lines += ["    check(stack(), here())"] * 5
    scope = {}
    exec(compile("\n".join(lines), "long.py", "exec"), scope)
    scope["long"](check, stack, here)


def in_threads():
    failures = []

    def run(work):
        try:
            work()
        except BaseException as failure:
            failures.append(failure)
            raise

    work = [lambda: nested(5), called_back, rewritten, multiple_lines]
    threads = [threading.Thread(target=run, args=(part,)) for part in work * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


def without_state():
    """A thread without a thread state."""
    libc = ctypes.CDLL(None)
    room = ctypes.create_string_buffer(1 << 16)
    length = ctypes.c_size_t
    thread = ctypes.c_ulong()
    start = ctypes.cast(probe.probe_thread, ctypes.c_void_p)
    assert libc.pthread_create(ctypes.byref(thread), None, start, room) == 0
    assert libc.pthread_join(thread, None) == 0
    assert b"Python" not in room.value and room.value, room.value


def main():
    installed = text(probe.probe_install)
    expected = "reads " + sys.version.split()[0]
    if installed != expected:
        raise SystemExit(installed)
    nested(0)
    nested(20)
    nested(900)
    for _ in generator():
        check(stack(), here())
    asyncio.run(many())
    trainer = Trainer()
    trainer.loss
    trainer.cached()
    sorted([trainer, trainer])
    Trainer.größe()
    del trainer
    Trainer.cached.cache_clear()
    gc.collect()
    called_back()
    multiple_lines()
    rewritten()
    long_function()
    (lambda: check(stack(), here()))()
    exec("check(stack(), here())")
    eval("[check(stack(), here())]")
    in_threads()
    without_state()
    print(f"checked {checked} stacks")


main()
