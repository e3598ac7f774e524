"""Policies are read by any number of threads, the first time too."""

import subprocess
import sys

_PROGRAM = """
import ruamel, sys, threading, time, types

class Slow(types.ModuleType):
    def __setattr__(self, name, value):
        if name == "yaml":
            time.sleep(0.5)  # between loading the package and tying it to its parent
        super().__setattr__(name, value)

ruamel.__class__ = Slow
from attest.policy.document import read_document
found = []
threads = [threading.Thread(target=lambda: found.append(read_document(b"a: 1"))) for _ in range(4)]
for thread in threads:
    thread.start()
    time.sleep(0.05)
for thread in threads:
    thread.join()
print(found)
"""


def test_threads_that_read_the_first_yaml_at_once_all_get_it() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == ""
    assert done.stdout == f"{[{'a': 1}] * 4}\n"
