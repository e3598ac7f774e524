"""Kill sealing, unsealing or rewrapping at every step that touches a file, look at what is left, and run it again.

Run as a program, so that nothing but this process is forked: ``python -m tests.sealed.killed KIND FOLDER STEP``.
Every STEP-th event kills one child, at its n-th event for n = 1, 1 + STEP, …, until one lives to its end. Prints a JSON
list of what each round left: ``absent``, ``old``, ``resumable`` or ``whole``.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from attest.errors import AttestError
from attest.release.names import KeyReference
from attest.sealed import SealingNames, open_directory, rewrap, unseal_directory
from tests.sealed.made import FILES, KEY, OTHER_KEY, OWNER, Place, read_files

EVENTS = frozenset(
    {
        "open",
        "os.rename",
        "os.remove",
        "os.rmdir",
        "os.mkdir",
        "os.truncate",
        "os.scandir",
        "fcntl.flock",
        "shutil.rmtree",
    }
)
TRUSTED = (OWNER.public_key(),)
SECOND = SealingNames(key=KeyReference.parse("model@2"))


def die_at(count: int) -> None:
    """Kill this process at the count-th event that touches a file."""
    left = count

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal left
        del arguments
        if event in EVENTS:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def child(work: Callable[[], object], *, at: int) -> bool:
    """Run the work in a child that dies at an event; say whether it lived."""
    pid = os.fork()
    if pid == 0:
        try:
            die_at(at)
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return False
    if status:
        raise SystemExit(f"the child ended with {status}")
    return True


def sealing(folder: Path) -> tuple[Callable[[], object], Callable[[], str]]:
    place = Place(folder)

    def look() -> str:
        if not place.sealed.exists():
            return "resumable" if (folder / ".sealed.sealing").exists() else "absent"
        with place.open(digests=True) as model:
            if {path: bytes(model.read(path)) for path in model.entries} != FILES:
                raise SystemExit("another model")
        return "whole"

    return place.seal, look


def unsealing(folder: Path) -> tuple[Callable[[], object], Callable[[], str]]:
    place = Place(folder)
    place.seal()
    target = folder / "plain"

    def work() -> object:
        with place.open() as model:
            return unseal_directory(model, target, random=os.urandom, allow_disk=True)

    def look() -> str:
        if not target.exists():
            return "resumable" if (folder / ".plain.unsealing").exists() else "absent"
        if read_files(target) != FILES:
            raise SystemExit("another model")
        return "whole"

    return work, look


def rewrapping(folder: Path) -> tuple[Callable[[], object], Callable[[], str]]:
    place = Place(folder)
    place.seal()

    def work() -> object:
        return rewrap(
            place.sealed,
            key=lambda manifest: KEY if manifest.key.version == 1 else OTHER_KEY,
            new_key=OTHER_KEY,
            names=SECOND,
            signer=OWNER,
            trusted=TRUSTED,
            random=os.urandom,
        )

    def look() -> str:
        for key, word in ((OTHER_KEY, "whole"), (KEY, "old")):
            try:
                with open_directory(place.sealed, key=key, trusted=TRUSTED, verify_digests=True) as model:
                    if {path: bytes(model.read(path)) for path in model.entries} != FILES:
                        raise SystemExit("another model")
                    return word
            except AttestError as exc:
                if exc.code == "sealed-key-mismatch":
                    continue
                if exc.code == "sealed-digest-mismatch" and (folder / ".sealed.rewrapping").exists():
                    return "resumable"
                raise
        raise SystemExit("opens under no key")

    return work, look


KINDS = {"seal": sealing, "unseal": unsealing, "rewrap": rewrapping}


def main() -> None:
    kind, top, step = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    left: list[str] = []
    at, lived = 1, False
    while not lived:
        folder = top / str(at)
        folder.mkdir()
        work, look = KINDS[kind](folder)
        lived = child(work, at=at)
        found = look()
        left.append(found)
        if found != "whole":
            # Killed once more on the way, at another place; then to the end.
            last = child(work, at=max(1, at // 2))
            if look() != "whole":
                last = child(work, at=1 << 30)
        else:
            last = lived
        if kind != "rewrap":
            refused(work)  # which also tidies up after a run that died right after it was done
            last = True
        if look() != "whole":
            raise SystemExit(f"not whole after {at}: {look()}")
        remains = sorted(one.name for one in folder.iterdir() if one.name.startswith("."))
        if remains and last:
            raise SystemExit(f"left behind after {at}: {remains}")
        shutil.rmtree(folder)
        at += step
    json.dump(left, sys.stdout)


def refused(work: Callable[[], object]) -> None:
    """A target that is there is refused, also right after it was made."""
    try:
        work()
    except AttestError as exc:
        if exc.code == "output-exists":
            return
        raise
    raise SystemExit("a target was overwritten")


if __name__ == "__main__":
    main()
