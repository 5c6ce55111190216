import ctypes
import os
import sys

probe = ctypes.CDLL(sys.argv[1])
room = ctypes.create_string_buffer(1 << 16)
probe.probe_install(room, len(room))
room = ctypes.create_string_buffer(1 << 16)


class Trainer:
    def __init__(self):
        self.held = []

    def step(self):
        # A report points at the line of the call, not at the line of the list.
        self.held.append(
            # The stack is taken in the call below.
            probe.probe_stack(room, len(room))
        )

def train(trainer):
    trainer.step()


train(Trainer())
print("qualified" if sys.version_info >= (3, 11) else "plain")
for frame in room.value.decode().splitlines():
    file, line, _, function, _, _, language = frame.split("\t")
    if language == "Python":
        print(f"{os.path.basename(file)}:{line} in {function}")
