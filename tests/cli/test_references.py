"""`attest references`."""

import json
from pathlib import Path
from typing import Any

import cbor2
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from attest_simulator.nvidia import SimulatedGpu
from tests.cli.conftest import LAB, WHEN, Attest, Files
from tests.endorsements.cose_made import CosePrivateKey
from tests.policy.corim_made import CLASS, comid, corim, intel, launch_measurement, signed_corim
from tests.samples import AT

A, B = "01" * 48, "02" * 48


def document(**changes: Any) -> dict[str, Any]:  # noqa: ANN401  any JSON
    return {
        "schema": "attest.references/1",
        "name": "fleet",
        "version": 3,
        "origin": "us",
        "issued": "2026-01-01T00:00:00Z",
        "expires": "2026-07-01T00:00:00Z",
        "values": {
            "image": {"kind": "snp-measurement", "values": [A, B]},
            "old": {"kind": "tdx-mr-td", "values": [A], "expires": "2026-02-01T00:00:00Z", "origin": "them"},
        },
    } | changes


@pytest.fixture
def fleet(files: Files) -> Path:
    return files.write("fleet.json", json.dumps(document()).encode())


def keys(files: Files, key: Any) -> tuple[Path, Path]:  # noqa: ANN401  any private key
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return files.write("key.pem", private), files.write("key.pub", public)


def test_list_shows_ends_and_what_is_revoked(attest: Attest, files: Files, fleet: Path) -> None:
    other = document(
        name="other",
        expires={"unchecked": "rebuilt daily"},
        values={"x": {"kind": "snp-measurement", "values": [B]}},
        revoked=[{"value": A, "reason": "CVE-1"}],
    )
    second = files.write("other.json", json.dumps(other).encode())
    ran = attest("references", "list", fleet, second, "--at", WHEN, "--json")
    first, found = ran.document["documents"]
    assert (ran.code, ran.document["schema"]) == (0, "attest.references-list/1")
    assert first["values"]["image"]["values"] == [f"{A}  REVOKED: CVE-1", B]
    assert (first["values"]["image"]["state"], first["values"]["old"]["state"]) == ("current", "EXPIRED")
    assert (first["state"], found["expires"]) == ("current", "never: rebuilt daily")
    assert found["revoked"] == {A: "CVE-1"}
    page = attest("references", "list", fleet, "--at", "2027-01-01T00:00:00Z")
    assert "expired" in page.out
    assert attest("references", "list", fleet, "-q").out == ""


def test_a_document_that_does_not_load_is_named(attest: Attest, files: Files) -> None:
    bad = files.write("bad.json", json.dumps(document(vaules={})).encode())
    ran = attest("references", "list", bad)
    assert (ran.code, ran.out) == (2, "")
    assert "bad.json:1:" in ran.err
    assert "did you mean 'values'" in ran.err
    assert "hint: " in ran.err
    assert "policy" not in attest("references", "list", files.write("junk.json", b"\xff\x00")).err.splitlines()[0]


@pytest.mark.parametrize(
    ("key", "algorithm"),
    [(ed25519.Ed25519PrivateKey.generate(), -8), (ec.generate_private_key(ec.SECP384R1()), -35)],
    ids=["ed25519", "p384"],
)
def test_a_signed_corim_is_carried_over(attest: Attest, files: Files, key: CosePrivateKey, algorithm: int) -> None:
    _, public = keys(files, key)
    triples = ([CLASS, [launch_measurement(bytes.fromhex(value))]] for value in (A, B))
    header = {1: algorithm, 8: cbor2.dumps({0: {0: "ACME"}})}
    file = files.write("x.corim", signed_corim(corim(comid(*triples)), key, header))
    back = attest("references", "from-corim", file, "--key", public, "-o", "back.json", "--json")
    assert back.code == 0
    assert (back.document["schema"], back.document["left_out"]) == ("attest.references-made/1", [])
    found = json.loads(Path("back.json").read_text())
    assert found["values"] == {"image": {"kind": "snp-measurement", "values": [A, B]}}
    assert "signed by" in found["origin"]
    assert "ACME" in found["origin"]
    listed = attest("references", "list", "back.json", "--json").document["documents"][0]
    assert listed["digest"] == back.document["digest"]


def test_a_corim_of_somebody_else_is_exit_4(attest: Attest, files: Files) -> None:
    _, public = keys(files, ed25519.Ed25519PrivateKey.generate())
    file = files.write("x.corim", intel({-83: [7, bytes.fromhex(A)]}))
    ran = attest("references", "from-corim", file, "--key", public)
    assert (ran.code, ran.out) == (4, "")
    ran = attest("references", "from-corim", file, "--unverified", "--name", "lab", "--document-version", 7)
    assert (ran.code, ran.document["name"], ran.document["version"]) == (0, "lab", 7)
    assert "whose signature was not verified" in ran.document["origin"]


def test_wrong_use_is_exit_2(attest: Attest, files: Files, fleet: Path) -> None:
    private, _ = keys(files, ec.generate_private_key(ec.SECP521R1()))
    junk = files.write("junk", b"junk")
    for arguments in (
        ("from-corim", fleet),
        ("from-corim", fleet, "--unverified", "--key", junk),
        ("from-corim", fleet, "--key", junk),
        ("from-corim", fleet, "--key", private),
    ):
        assert attest("references", *arguments).code == 2, arguments


def test_bytes_that_are_no_corim_are_exit_3(attest: Attest, fleet: Path) -> None:
    assert attest("references", "from-corim", fleet, "--unverified").code == 3


def test_a_good_machine_is_written_down(attest: Attest, files: Files) -> None:
    made = ("--name", "fleet", "--origin", "host 7")
    asked = (files.extended, "--nonce-text", files.NONCE, *LAB)
    ran = attest("references", "from-evidence", *asked, *made, "--kind", "snp-measurement", "--days", 7)
    assert ran.code == 0
    assert ran.document["values"] == {
        "cpu-snp-measurement": {"kind": "snp-measurement", "values": [files.guest.measurement.hex()]}
    }
    assert ran.document["origin"] == "SIMULATED: host 7"
    assert (ran.document["issued"], ran.document["expires"]) == (WHEN, "2026-06-08T00:00:00Z")
    ran = attest("references", "from-evidence", *asked, *made, "-o", "fleet.json")
    assert ran.out.startswith("fleet.json: ")
    assert attest("references", "list", "fleet.json").code == 0


def test_evidence_that_does_not_hold_is_not_written_down(attest: Attest, files: Files) -> None:
    made = ("--name", "fleet", "--origin", "host 7")
    assert attest("references", "from-evidence", files.flipped, *LAB, *made).code == 4
    asked = (files.extended, "--nonce-text", files.NONCE, *LAB, *made)
    assert attest("references", "from-evidence", *asked, "--kind", "snp-mesurement").code == 2
    assert attest("references", "from-evidence", *asked, "--kind", "tdx-mr-td").code == 2


def test_rims_are_listed_by_digest(attest: Attest, files: Files) -> None:
    rims = SimulatedGpu.of("gpu").endorsements(at=AT).rims
    paths = [files.write(f"{at}.xml", rim.xml) for at, rim in enumerate(rims)]
    asked = ("references", "from-rims", *paths, "--name", "rims", "--origin", "release", "--at", WHEN)
    ran = attest(*asked, "--allow-simulated")
    assert ran.code == 0
    values = [value for entry in ran.document["values"].values() for value in entry["values"]]
    assert sorted(values) == sorted(rim.sha256.hex() for rim in rims)
    assert ran.document["origin"] == "SIMULATED: release"
    assert attest(*asked).code == 4
    assert attest(*asked[:-1], "2056-01-01T00:00:00Z", "--allow-simulated").code == 5
    junk = files.write("junk.xml", b"junk")
    assert attest("references", "from-rims", junk, "--name", "x", "--origin", "x").code == 3
