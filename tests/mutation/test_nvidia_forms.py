"""Every byte of NVIDIA's JSON forms: changed means refused, or nothing changes but hints that no check rests on."""

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

import pytest

from attest.checks import Unchecked
from attest.encoding import base64url_text
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import NO_ENDORSEMENTS
from attest.errors import AttestError
from attest.evidence.freshness import ExpectedFreshness
from attest.evidence.gpu.evidence import ParsedGpuEvidence, parse_nvidia_device
from attest.evidence.input_files import read_evidence
from attest.verification import verify
from attest_simulator.nvidia import SimulatedGpu

AT = datetime(2026, 6, 1, tzinfo=UTC)
NONCE = bytes(range(32))
GPU = SimulatedGpu.of("a changed form", driver="570.172.08")
REPORT, CHAIN = GPU.report(NONCE), GPU.chain_pem
WITHOUT = tuple(Unchecked(check=name, reason="a test of forms") for name in ("rim", "revocation"))
ROOT_AT = CHAIN.rindex(b"-----BEGIN")

Pieces = Sequence[tuple[str, str]]
"""A document as text, each piece with what it is."""


def quoted(what: str, text: str) -> Iterator[tuple[str, str]]:
    yield from (("frame", '"'), (what, text), ("frame", '"'))


def members(values: Mapping[str, Pieces]) -> Iterator[tuple[str, str]]:
    """Write an object; the name of a member is a piece, too."""
    for number, (name, value) in enumerate(values.items()):
        yield "frame", "," if number else "{"
        yield from quoted(f"name {name}", name)
        yield "frame", ":"
        yield from value
    yield "frame", "}"


def text(what: str, value: str) -> Pieces:
    return tuple(quoted(what, value))


def listed(value: Iterator[tuple[str, str]]) -> Pieces:
    return (("frame", "["), *value, ("frame", "]"))


def device(*, report: str | None = None, hints: bool = True) -> dict[str, Pieces]:
    stated = {"nonce": text("nonce", NONCE.hex()), "arch": text("arch", "HOPPER"), "version": text("version", "1.0")}
    return {
        **(stated if hints else {}),
        "evidence": text("evidence", b64encode(REPORT).decode() if report is None else report),
        "certificate": text("certificate", b64encode(CHAIN).decode()),
    }


def record(what: str, media_type: str, data: bytes) -> Pieces:
    return listed(iter((*quoted("type", media_type), ("frame", ","), *quoted(what, base64url_text(data)))))


def collection() -> dict[str, Pieces]:
    item = {
        "__cmwc_t": text("type", "tag:nvidia.com,2026:evidence-item/v1"),
        "evidence": record("evidence", "application/vnd.nvidia.spdm-measurement-transcript", REPORT),
        "certificate": record("certificate", "application/vnd.nvidia.pem-cert-chain", CHAIN),
    }
    return {
        "__cmwc_t": text("input type", "tag:nvidia.com,2026:verifier-input/profiles/base/pre-1.0.0"),
        "nonce": record("nonce", "application/octet-stream", NONCE),
        "gpu_0": tuple(members(item)),
    }


def request(row: dict[str, Pieces]) -> Iterator[tuple[str, str]]:
    return members(
        {
            "nonce": text("nonce", NONCE.hex()),
            "arch": text("arch", "HOPPER"),
            "claims_version": text("version", "3.0"),
            "evidence_list": listed(members(row)),
        }
    )


FORMS: dict[str, Pieces] = {
    "request": tuple(request(device(hints=False))),
    "request with hints of its devices": tuple(request(device())),
    "request with hex": tuple(request(device(report=b64encode(REPORT.hex().encode()).decode(), hints=False))),
    "list": listed(members(device())),
    "answer of nvattest": tuple(members({"evidences": listed(members(device())), "result_code": (("code", "0"),)})),
    "list of Confidential Containers": tuple(
        members({"device_evidence_list": listed(members(device(report=REPORT.hex(), hints=False)))})
    ),
    "collection": tuple(members(collection())),
}
MAY_CHANGE: Mapping[str, frozenset[str]] = {
    # Hex in letters of either case; a hint under another name, which is then none; versions that nothing rests on.
    "request": frozenset({"nonce", "arch", "version", "name nonce", "name arch", "name claims_version"}),
    "request with hints of its devices": frozenset(
        {"nonce", "arch", "version", "name nonce", "name arch", "name claims_version", "name version"}
    ),
    "request with hex": frozenset(
        {"nonce", "arch", "version", "name nonce", "name arch", "name claims_version", "evidence"}
    ),
    "list": frozenset({"nonce", "arch", "version", "name nonce", "name arch", "name version"}),
    "answer of nvattest": frozenset(
        {"nonce", "arch", "version", "name nonce", "name arch", "name version", "name result_code"}
    ),
    "list of Confidential Containers": frozenset({"evidence"}),
    # Releases of the profile are not told apart, and a device may have any label.
    "collection": frozenset({"input type", "name gpu_0"}),
}
"""What may change in each form beside white space, the text of the chain and its embedded root."""
IN_ALL = frozenset({"certificate"})


def honest() -> ParsedGpuEvidence:
    return parse_nvidia_device(GPU.device_item(NONCE))


def accepted(data: bytes) -> ParsedGpuEvidence | None:
    """Verify a file; return the device that was accepted, or None for a documented refusal."""
    try:
        evidence = read_evidence([("file", data)]).evidence
        verify(
            evidence,
            endorsements=NO_ENDORSEMENTS,
            anchors=TrustAnchors.simulation(),
            at=AT,
            expected=ExpectedFreshness(nonce=NONCE),
            unchecked=WITHOUT,
        )
    except AttestError as exc:
        if exc.exit_code not in {3, 4, 5}:
            raise
        return None
    (item,) = evidence.items
    return parse_nvidia_device(item.value)


def changes(pieces: Pieces) -> Iterator[tuple[str, bytes]]:
    """Flip one bit in each byte, in long values in every 17th; yield what was changed, and the file."""
    whole = "".join(value for _, value in pieces).encode()
    at = 0
    for what, value in pieces:
        for offset in range(at, at + len(value), 17 if len(value) > 200 else 1):
            altered = bytearray(whole)
            altered[offset] ^= 1 << offset % 7
            yield what, bytes(altered)
        at += len(value)


def require_the_same(found: ParsedGpuEvidence) -> None:
    """Require the report, the four certificates that count and the hints that are left to be the device's own."""
    expected = honest()
    assert found.report.raw == REPORT
    assert expected.chain is not None
    assert [one.der for one in found.chain or ()][:4] == [one.der for one in expected.chain][:4]
    assert found.stated_nonce in (None, NONCE)
    assert found.arch in (None, "HOPPER")


@pytest.mark.parametrize("name", FORMS)
def test_a_form_is_accepted_as_it_is(name: str) -> None:
    data = "".join(value for _, value in FORMS[name]).encode()
    json.loads(data)
    found = accepted(data)
    assert found is not None
    require_the_same(found)


@pytest.mark.parametrize("name", FORMS)
def test_a_form_with_any_byte_changed_is_refused_or_loses_no_more_than_hints(name: str) -> None:
    changed: set[str] = set()
    for what, data in changes(FORMS[name]):
        found = accepted(data)
        if found is not None:
            require_the_same(found)
            changed.add(what)
    assert changed - IN_ALL == MAY_CHANGE[name]


@pytest.mark.parametrize("name", FORMS)
def test_a_form_that_is_cut_anywhere_is_refused(name: str) -> None:
    data = "".join(value for _, value in FORMS[name]).encode()
    for length in (*range(0, len(data), 97), len(data) - 1):
        assert accepted(data[:length]) is None, length


@pytest.mark.parametrize("name", ["request", "list", "collection"])
def test_a_chain_in_a_form_may_change_in_its_root_and_between_its_blocks_alone(name: str) -> None:
    pieces = FORMS[name]
    encode = base64url_text if name == "collection" else lambda data: b64encode(data).decode()
    for offset in range(0, len(CHAIN), 11):
        altered = bytearray(CHAIN)
        altered[offset] ^= 1 << offset % 7
        data = "".join(encode(bytes(altered)) if what == "certificate" else value for what, value in pieces)
        found = accepted(data.encode())
        if found is not None:
            require_the_same(found)
            assert offset >= ROOT_AT or CHAIN[offset : offset + 1] in b"\r\n-", offset
