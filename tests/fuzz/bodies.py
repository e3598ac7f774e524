"""Bodies for ``POST /v1/releases`` that are almost right: none is accepted, none is slow, none is a 500.

::

    python -m tests.fuzz.bodies [--count N] [--seed TEXT]

Each body is made from an honest request under a challenge that still counts, so that what refuses it is the change and
nothing else. Where a change leaves the request what it was (white space, the case of a media type), the key may be
released, and a new challenge is taken. Most changes are to the JSON and end early; every hundredth is to the evidence
behind a request that is well formed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from attest import Binding, Evidence, EvidenceItem
from attest.encoding import base64url_bytes, base64url_text, json_value
from attest.errors import AttestError
from attest.evidence.envelope import MEDIA_BINDING, MEDIA_SNP_REPORT
from attest.release import ReleaseRequest
from kms.api.app import create_app
from tests.kms.support import CHIP, Harness, Workload

COUNT = 1_000_000
SLOW_SECONDS = 1.0
"""Of processor time, which what else runs on the machine does not change. Far above what an honest request takes,
and far below what would be an attack."""
DEEP_EVERY = 100
RENEW_EVERY = 10_000
_NO_PROBLEM = "no-problem"
_USED = "challenge-used"
OK, INTERNAL = 200, 500
Json = Any  # JSON that is taken apart


@dataclass
class Tally:
    """What came of the bodies.

    Attributes:
        codes: how often each status and code was the answer.
        wrong: bodies that were accepted, that failed, that were slow or whose answer is no problem document.
        slowest: the most that one took, in seconds of processor time.
    """

    codes: Counter[str] = field(default_factory=Counter)
    wrong: list[tuple[str, bytes]] = field(default_factory=list)
    slowest: float = 0.0

    def add(self, body: bytes, honest: bytes, status: int, answer: bytes, seconds: float) -> str:
        """Count one answer and return its code."""
        self.slowest = max(self.slowest, seconds)
        try:
            code = str(json.loads(answer)["code"])
        except (ValueError, KeyError, TypeError):
            code = _NO_PROBLEM
        same = status == OK and _says_the_same(body, honest)
        self.codes["200 the same request" if same else f"{status} {code}"] += 1
        failed = status == INTERNAL or (code == _NO_PROBLEM and not same)
        if failed or seconds > SLOW_SECONDS:
            self.wrong.append((f"{status} {code} after {seconds:.3f} s", body))
        return code


class Service:
    """A service in this process that is sent bodies without a network between.

    Args:
        harness: with a key ``model``.
    """

    def __init__(self, harness: Harness) -> None:
        """Make the application and a loop of its own."""
        self.harness = harness
        self._app: FastAPI = create_app(harness.settings, harness.services)
        self._loop = asyncio.new_event_loop()

    def honest(self) -> bytes:
        """Return a request that would be answered with the key, under a challenge of its own."""
        request = BareWorkload().request(self.harness.releases.challenge(), "model")
        return json.dumps(request.to_json()).encode()

    def send(self, body: bytes) -> tuple[int, bytes, float]:
        """Send a body; return status, answer and seconds of processor time, of all threads."""
        started = time.process_time()
        status, answer = self._loop.run_until_complete(self._answer(body))
        return status, answer, time.process_time() - started

    async def _answer(self, body: bytes) -> tuple[int, bytes]:
        status, pieces = 0, []

        async def receive() -> dict[str, object]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: MutableMapping[str, Any]) -> None:  # Any: a message of ASGI
            nonlocal status
            status = message.get("status", status)
            pieces.append(message.get("body", b""))

        await self._app(_SCOPE, receive, send)
        return status, b"".join(pieces)

    def close(self) -> None:
        """End the loop."""
        self._loop.close()


class BareWorkload(Workload):
    """A guest whose evidence brings no certificates: every byte of it is signed, or refused where it is not zero."""

    def attest(self, binding: Binding) -> Evidence:
        """Return a raw report and the binding."""
        report = self.guest.report(binding.report_data())
        return Evidence(
            items=(
                EvidenceItem(name="cpu", media_type=MEDIA_SNP_REPORT, value=report),
                EvidenceItem(name="binding", media_type=MEDIA_BINDING, value=binding.to_bytes()),
            )
        )


def open_harness(folder: Path) -> Harness:
    """Make a service that has the certificates of the guest's chip."""
    harness = Harness.make(folder)
    for number, certificate in enumerate(CHIP.certificates()):
        (folder / "endorsements" / f"{number}.der").write_bytes(certificate)
    harness.services.endorsements.reload(at=harness.clock())
    harness.add_key("model")
    return harness


_SCOPE: dict[str, Any] = {  # Any: a scope of ASGI
    "type": "http",
    "asgi": {"version": "3.0"},
    "http_version": "1.1",
    "method": "POST",
    "scheme": "http",
    "path": "/v1/releases",
    "raw_path": b"/v1/releases",
    "query_string": b"",
    "root_path": "",
    "headers": [(b"host", b"kms.test"), (b"content-type", b"application/json")],
    "client": ("127.0.0.1", 50000),
    "server": ("kms.test", 80),
}


def fuzz(service: Service, *, count: int, seed: str) -> Tally:
    """Send that many bodies."""
    rng, tally = random.Random(seed), Tally()
    honest = service.honest()
    for number in range(count):
        change = _in_evidence if number % DEEP_EVERY == 0 else rng.choice(_SHALLOW)
        body = change(honest, rng)
        code = tally.add(body, honest, *service.send(body))
        if code == _USED or number % RENEW_EVERY == 0:
            honest = service.honest()
    return tally


def _says_the_same(body: bytes, honest: bytes) -> bool:
    """Whether a body is the honest request in other words: no member twice, and the same values where any count."""
    try:
        document = json_value(body, what="body")
    except AttestError:
        return False
    return _said(document) == _said(json.loads(honest))


def _said(document: Json) -> tuple[object, ...]:
    """Return what counts of a request. Names of items are not signed, and a report may have zeros behind it."""
    request = ReleaseRequest.from_json(document)
    items = sorted(
        (item.media_type.partition(";")[0].lower(), item.value.rstrip(b"\0")) for item in request.evidence.items
    )
    return request.challenge, request.key_ids, items


def _flip(body: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(body))
    return body[:at] + bytes((body[at] ^ 1 << rng.randrange(8),)) + body[at + 1 :]


def _cut(body: bytes, rng: random.Random) -> bytes:
    return body[: rng.randrange(len(body))]


def _splice(body: bytes, rng: random.Random) -> bytes:
    first, second = sorted((rng.randrange(len(body)), rng.randrange(len(body))))
    third = rng.randrange(len(body))
    return body[:third] + body[first:second][:512] + body[third:]


def _insert(body: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(body))
    return body[:at] + rng.choice(_TOKENS) + body[at:]


def _member(body: bytes, rng: random.Random) -> bytes:
    """Put something else in the place of one value, at any depth."""
    document = json.loads(body)
    holder, name = rng.choice(list(_places(document)))
    holder[name] = rng.choice(_VALUES)
    return json.dumps(document).encode()


def _twice(body: bytes, rng: random.Random) -> bytes:
    """Say one member twice, with another value the first time."""
    document = json.loads(body)
    name = rng.choice(list(document))
    return b"{" + json.dumps(name).encode() + b":" + json.dumps(rng.choice(_VALUES)).encode() + b"," + body[1:]


def _without(body: bytes, rng: random.Random) -> bytes:
    document = json.loads(body)
    holder, name = rng.choice(list(_places(document)))
    del holder[name]
    return json.dumps(document).encode()


def _in_evidence(body: bytes, rng: random.Random) -> bytes:
    """Flip one bit of what an item of the evidence is, and leave the request well formed."""
    document = json.loads(body)
    items = [item for item in document["evidence"].values() if isinstance(item, list)]
    item = rng.choice(items)
    content = bytearray(base64url_bytes(item[1], what="item"))
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    item[1] = base64url_text(bytes(content))
    return json.dumps(document).encode()


def _places(value: Json) -> Iterator[tuple[Json, Json]]:
    """Yield every place of a document that holds a value."""
    for name in value if isinstance(value, dict) else range(len(value)):
        yield value, name
        if isinstance(value[name], dict | list):
            yield from _places(value[name])


_SHALLOW = (_flip, _cut, _splice, _insert, _member, _twice, _without)
_VALUES: tuple[Json, ...] = (
    None,
    True,
    0,
    -1,
    2**64,
    1e308,
    "",
    "model",
    "MODEL",
    "../model",
    "default/model",
    "model@0",
    "\0",
    "\ud800",
    "A" * 5000,
    [],
    [[]] * 20,
    ["model"] * 2,
    ["model", "other"],
    {},
    {"": None},
    {"__proto__": 1},
)
_TOKENS = (
    b"\0",
    b"\xff",
    b"[" * 2000,
    b"{" * 200,
    b'"',
    b"\\u0000",
    b"1e999",
    b"NaN",
    b"-",
    b",",
    b"}",
    b"\xef\xbb\xbf",
)


def main() -> int:
    """Send the bodies and say what came of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--seed", default="bodies")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        harness = open_harness(Path(folder))
        service = Service(harness)
        started = time.perf_counter()
        tally = fuzz(service, count=options.count, seed=options.seed)
        seconds = time.perf_counter() - started
        service.close()
        harness.close()
    for code, count in tally.codes.most_common():
        print(f"{count:9} {code}")
    for why, body in tally.wrong[:10]:
        print(f"wrong: {why}: {body[:300]!r}", file=sys.stderr)
    print(f"{options.count} bodies in {seconds:.0f} s, {len(tally.wrong)} wrong, slowest {tally.slowest * 1000:.0f} ms")
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
