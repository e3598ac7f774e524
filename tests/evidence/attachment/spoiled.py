"""Evidence that is almost in one of the forms: each change alone, deterministic."""

import json
import random
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from attest_simulator.intel.attested_certificate import OIDS
from tests.evidence.attachment.test_certificate import MALFORMED, held
from tests.evidence.attachment.wild import FORMS
from tests.evidence.test_input_files import UNSUPPORTED, pem

_VALUES: tuple[Any, ...] = (None, 7, "", "x", [], {}, "AAAA", "A-+A")


def spoiled() -> Iterator[tuple[str, bytes]]:
    """Yield a name and bytes for each change."""
    for name, wild in FORMS.items():
        changes = _json(json.loads(wild.data)) if wild.data.startswith(b"{") else _binary(name, wild.data)
        yield from ((f"{name}: {what}", data) for what, data in changes)
    for what, (form, value, _) in MALFORMED.items():
        data = held(OIDS[form], value)  # type: ignore[index]  # a name of the table
        yield what, data
        yield f"{what}, PEM", pem(data)
    yield from ((f"named {number}", data) for number, (data, _) in enumerate(UNSUPPORTED) if b"eyJ" not in data[:3])
    certificate = FORMS["certificate, RA-TLS"].data
    yield "two certificates with quotes", pem(certificate, FORMS["certificate, dstack"].data)
    yield "a certificate in text", b"text in front\n" + pem(certificate)


def _json(document: dict[str, Any]) -> Iterator[tuple[str, bytes]]:
    for path in _paths(document):
        for value in (*_VALUES, _Absent):
            changed = deepcopy(document)
            place: Any = changed
            for step in path[:-1]:
                place = place[step]
            if value is _Absent:
                del place[path[-1]]
            else:
                place[path[-1]] = value
            yield f"{'.'.join(path)} {getattr(value, '__name__', value)!r}", json.dumps(changed).encode()
    yield "one more", json.dumps(document | {"more": 1}).encode()


class _Absent:
    pass


def _paths(document: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    for name, value in document.items():
        yield (name,)
        if isinstance(value, dict):
            yield from ((name, *rest) for rest in _paths(value))


def _binary(name: str, data: bytes) -> Iterator[tuple[str, bytes]]:
    chosen = random.Random(name)
    for _ in range(40):
        at, bit = chosen.randrange(len(data)), 1 << chosen.randrange(8)
        yield f"bit {bit} of byte {at}", data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :]
    for size in (1, 16, 32, 200, len(data) // 2, len(data) - 1):
        yield f"cut to {size}", data[:size]
    yield "longer", data + b"\0"
