"""Endorsement bundles, sound and spoiled: the page finds in them what Python finds."""

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping
from hashlib import sha256
from random import Random

import pytest

from attest.encoding import CborValue, cbor_bytes
from attest.endorsements.intel_answers import intel_answer_bytes
from attest_simulator.machines import SimulatedMachine
from tests.page.browser import Question, Verifier
from tests.page.intel_cases import FILES, TD, case
from tests.page.reference import answer, differences
from tests.page.test_machines import AT, BINDING
from tests.samples_intel import ZEROS

pytestmark = pytest.mark.loopback
MOMENT = AT.isoformat().replace("+00:00", "Z")
KEY_IDS = (b"a" * 32, b"b" * 32)


def _pem(*certificates: bytes, label: str = "CERTIFICATE") -> bytes:
    begin, end = (f"-----{word} {label}-----\n".encode() for word in ("BEGIN", "END"))
    return b"".join(begin + b64encode(der) + b"\n" + end for der in certificates)


def _entry(kind: CborValue, data: CborValue, source: CborValue = "https://vendor.example/") -> CborValue:
    return {"kind": kind, "source": source, "data": data}


def _rim_answer(xml: bytes) -> bytes:
    stated = {"id": "NV_X", "rim": b64encode(xml).decode(), "sha256": sha256(xml).hexdigest()}
    return json.dumps(stated).encode()


def _of_snp(files: Mapping[str, bytes]) -> list[CborValue]:
    """What an SEV-SNP machine with a GPU needs."""
    return [
        _entry("amd-crl", files["amd.crl"]),
        _entry("amd-chain", _pem(files["amd-0.der"], files["amd-1.der"])),
        *(_entry("nvidia-rim", _rim_answer(data)) for name, data in files.items() if "-rim-" in name),
        *(_entry("nvidia-ocsp", data) for name, data in files.items() if "-status-" in name),
    ]


def _of_tdx() -> list[CborValue]:
    signing = FILES["tcb_info_issuer_chain.pem"]
    return [
        _entry("intel-tcb-info", intel_answer_bytes(FILES["tcb_info.json"], issuer_chain=signing)),
        _entry("intel-qe-identity", intel_answer_bytes(FILES["qe_identity.json"], issuer_chain=signing)),
        *(
            _entry("intel-crl", intel_answer_bytes(data, issuer_chain=b""))
            for name, data in FILES.items()
            if name.endswith(".der")
        ),
    ]


def _bundle(entries: CborValue, **members: CborValue) -> dict[str, CborValue]:
    dates = {"created": "2026-01-01T00:00:00Z", "expires": "2027-01-01T00:00:00Z"}
    return {"format": "attest.endorsements/1", **dates, "entries": entries, **members}


def _signature(key_id: CborValue, **members: CborValue) -> CborValue:
    return {"algorithm": "Ed25519", "key_id": key_id, "signature": bytes(64), **members}


def _signed(bundle: dict[str, CborValue], *signatures: CborValue, **members: CborValue) -> bytes:
    return cbor_bytes({"bundle": cbor_bytes(bundle), "signatures": list(signatures), **members})


def _spellings(entries: list[CborValue]) -> Iterator[tuple[str, bytes]]:
    """What a bundle may be as a whole, and how its moments may be written."""
    whole = _bundle(entries)
    first, second = (_signature(key_id) for key_id in KEY_IDS)
    yield "plain", cbor_bytes(whole)
    yield "signed", _signed(whole, first, second)
    yield "signed by nobody", _signed(whole)
    yield "signed twice", _signed(whole, first, first)
    yield "signed in another order", _signed(whole, second, first)
    yield "signed by too many", _signed(whole, *(_signature(bytes([number]) * 32) for number in range(17)))
    yield "signed otherwise", _signed(whole, _signature(KEY_IDS[0], algorithm="ES256"))
    yield "signed in short", _signed(whole, _signature(KEY_IDS[0], signature=bytes(63)))
    yield "signed by a short key", _signed(whole, _signature(bytes(31)))
    yield "signed by text", _signed(whole, _signature("a" * 32))
    yield "signed with more", _signed(whole, _signature(KEY_IDS[0], more=1))
    yield "signed, and more", _signed(whole, first, more=1)
    yield "signed, in no bytes", cbor_bytes({"bundle": whole, "signatures": [first]})
    for name in whole:
        yield f"without {name}", cbor_bytes({other: value for other, value in whole.items() if other != name})
        yield f"{name} of no kind", cbor_bytes({**whole, name: 1})
    yield "more", cbor_bytes({**whole, "more": 1})
    yield "another format", cbor_bytes({**whole, "format": "attest.endorsements/2"})
    for created in (
        *("2027-01-01T00:00:00Z", "2026-06-10T00:00:01Z", MOMENT, "2026-01-01T00:00:00z", "2026-01-01T00:00:00+00:00"),
        *("2026-01-01 00:00:00Z", "2026-02-30T00:00:00Z", "0000-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "2026"),
        *("2026-01-01T00:00:00.500000Z", "2026-01-01T00:00:00.000000Z", "2026-01-01T00:00:00.5Z", "2026-01-01"),
        *("+002026-01-01T00:00:00Z", "2026-01-01T24:00:00Z", "2026-01-01T00:00Z", "Thu, 01 Jan 2026 00:00:00 GMT", ""),
    ):
        yield f"created {created}", cbor_bytes({**whole, "created": created})
    ends = ("2026-06-10T00:00:01Z", "2026-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "+010000-01-01T00:00:00Z")
    for expires in (MOMENT, *ends):
        yield f"expires {expires}", cbor_bytes({**whole, "expires": expires})


def _contents(entries: list[CborValue], spoiled: int) -> Iterator[tuple[str, bytes]]:
    """One entry that is none, among others that are."""
    good = entries[spoiled]
    others = entries[:spoiled] + entries[spoiled + 1 :]
    assert isinstance(good, dict)
    data = good["data"]
    assert isinstance(data, bytes)
    yield "no entry", cbor_bytes(_bundle([]))
    yield "an entry twice", cbor_bytes(_bundle([good, *entries]))
    kinds = ("amd-vcek", "amd-chain", "amd-crl", "nvidia-rim", "nvidia-ocsp", "intel-crl", "intel-tcb-info")
    sources = ("", "x" * 2048, "x" * 2049, "\u00fc", "\n", 1)
    changes: dict[str, CborValue] = {
        **{f"entry of kind {kind}": {**good, "kind": kind} for kind in (*kinds, "intel-qe-identity", "", "x", 1)},
        **{f"from {source!r:.20}": {**good, "source": source} for source in sources},
        "with more": {**good, "more": 1},
        "text": {**good, "data": "text"},
        "nothing": {**good, "data": b""},
        "cut": {**good, "data": data[:-1]},
        "longer": {**good, "data": data + b"\0"},
        "of no kind": 1,
    }
    for name, change in changes.items():
        yield name, cbor_bytes(_bundle([*others, change]))


def _altered(whole: bytes, count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    chance = Random(seed)
    for number in range(count):
        data = bytearray(whole)
        at = chance.randrange(chance.choice((60, len(data))))
        data[at] ^= 1 << chance.randrange(8)
        yield f"altered {number}", bytes(data)


def _found(page: Verifier, evidence: bytes, bundles: Mapping[str, bytes]) -> dict[str, str]:
    """Ask both about the evidence with each bundle, demand that they agree, and return how each ended."""
    files = {"evidence": evidence, **bundles}
    page.reload()
    page.hold(files)
    questions = [Question(input=["evidence"], at=MOMENT, endorsements=[name], anchors="simulation") for name in bundles]
    pairs = list(zip(bundles, questions, page.ask_all(questions), strict=True))
    assert {name: found for name, question, got in pairs if (found := differences(answer(question, files), got))} == {}
    return {name: got["error"]["code"] if got["error"] else "verified" for name, _, got in pairs}


def test_a_bundle_says_in_the_page_what_it_says_in_python(in_browser: Verifier) -> None:
    machine = SimulatedMachine.of("snp", gpus=1)
    files = machine.endorsement_files(at=AT)
    entries = _of_snp(files)
    bundles = {**dict(_spellings(entries)), **{f"{name} list": data for name, data in _contents(entries, 0)}}
    bundles |= {f"{name} chain": data for name, data in _contents(entries, 1)}
    bundles |= {f"{name} RIM": data for name, data in _contents(entries, 2)}
    bundles |= dict(_altered(bundles["plain"], 30, 1))
    several: dict[str, list[CborValue]] = {
        f"{count} certificates": [entries[0], _entry("amd-chain", _pem(*[files["amd-0.der"]] * count)), *entries[2:]]
        for count in (8, 9)
    }
    several["a chain with a list"] = [*entries[2:], _entry("amd-chain", _pem(files["amd.crl"], label="X509 CRL"))]
    bundles |= {name: cbor_bytes(_bundle(some)) for name, some in several.items()}
    found = _found(in_browser, machine(BINDING).to_json(), bundles)
    assert found["plain"] == found["signed"] == found["8 certificates"] == "verified"
    assert found["9 certificates"] == found["signed by nobody"] == "crl-missing"


def test_a_bundle_of_intels_answers_is_read_alike(in_browser: Verifier) -> None:
    evidence = case("bundles", TD.quote(ZEROS)).evidence.to_json()
    entries = _of_tdx()
    bundles = {"plain": cbor_bytes(_bundle(entries))}
    for number in range(len(entries)):
        bundles |= {f"{name}, entry {number}": data for name, data in _contents(entries, number)}
    bundles |= dict(_altered(bundles["plain"], 20, 2))
    assert _found(in_browser, evidence, bundles)["plain"] == "verified"
