"""Key-encryption keys for tests: the three back-ends that operators have, each in a place of the test's own."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from kms.domain.kek import RandomBytes
from kms.domain.kek_records import KekRecord, KekState
from kms.domain.secret import SecretBytes
from kms.keys.wrapping.backend import SingleKek
from kms.keys.wrapping.backends import create_backend, identify, new_record, open_backend
from kms.keys.wrapping.definitions import Definition, definition_of
from kms.keys.wrapping.file import FileBackend
from tests.kms.softhsm import SoftHsm
from tests.kms.support import AT, FakeRandom
from tests.kms.transit import TransitServer

KINDS = ("file", "pkcs11", "transit")


def file_kek(seed: str = "kek", *, random: RandomBytes | None = None) -> SingleKek:
    """A key-encryption key as one from a file would be."""
    key = SecretBytes(FakeRandom(seed)(32))
    backend = FileBackend(key, random=random or FakeRandom("nonces"), path=Path("kek"))
    return SingleKek(backend, kek_id=backend.derived_id, proof=None)


class Holder(Protocol):
    """Holds keys, and may go away."""

    def settings(self, key: str = "kek") -> dict[str, object]:
        """The members of ``[kek]`` for a key of this name."""
        ...


class Folder:
    """Holds keys in files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def settings(self, key: str = "kek") -> dict[str, object]:
        return {"backend": "file", "file": self.folder / key}


def holding(kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Holder]:
    """Hold keys in one of the three ways until the test ends."""
    if kind == "file":
        yield Folder(folder)
    elif kind == "pkcs11":
        yield SoftHsm(folder, monkeypatch)
    else:
        server = TransitServer(folder)
        yield server
        server.go_away()


def definition(holder: Holder, key: str = "kek") -> Definition:
    return definition_of(holder.settings(key), source="a test")


def made(holder: Holder, key: str = "kek", *, seed: str = "kek") -> tuple[SingleKek, KekRecord]:
    """Make a key where the holder holds it, and open it as the service does."""
    random = FakeRandom(f"{seed} {key}")
    backend = create_backend(definition(holder, key), random=random)
    record = new_record(backend, state=KekState.ACTIVE, random=random, at=AT)
    return opened(holder, record, key), record


def opened(holder: Holder, record: KekRecord, key: str = "kek") -> SingleKek:
    """Open a key that was made before."""
    backend = open_backend(definition(holder, key), random=FakeRandom(f"nonces {key}"))
    kek = identify(backend, [record])
    assert kek is not None
    return kek


def flattened(members: dict[str, object]) -> dict[str, Any]:  # Any: passed on as changes of settings
    """The same as settings."""
    return {"kek_file": None} | {f"kek_{name}": value for name, value in members.items()}
