"""Commands and the table of firmware floors: who is warned, and whose table is taken."""

import json
from pathlib import Path
from typing import Any

import pytest

from attest.cli.firmware_options import built_in_table
from tests.cli.conftest import Attest

RECORDED = ("--offline", "--at", "2026-06-01T00:00:00Z", "--unchecked", "freshness=recorded")
MILAN = "milan-v2-vcek/report.bin"
ENTRY = {
    "product": "milan",
    "component": "snp",
    "level": "255",
    "published": "2026",
    "advisory": "OURS-1",
    "fixes": "a flaw",
    "source": "https://vendor.invalid/1",
    "read_in": "a test",
}


@pytest.fixture
def table(attest: Attest, tmp_path: Path, keys: tuple[Path, Path]) -> tuple[str, ...]:
    """Options that name a signed table."""
    private, public = keys
    document: dict[str, Any] = {
        "schema": "attest.firmware-table/1",
        "name": "ours",
        "version": built_in_table().version + 1,
        "issued": "2026-06-01T00:00:00Z",
        "entries": [ENTRY, ENTRY | {"product": "tdx", "component": "tcb_date", "level": "2099-01-01T00:00:00Z"}],
    }
    file = tmp_path / "table.json"
    file.write_text(json.dumps(document))
    assert attest("policy", "sign", file, "--key", private, "--at", "2026-06-01T00:00:00Z").code == 0
    signature = ("--firmware-table-signature", f"{file}.sig", "--firmware-table-key", str(public))
    return ("--firmware-table", str(file), *signature)


@pytest.fixture
def keys(tmp_path: Path) -> tuple[Path, Path]:
    """A private key and its public half."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

    key = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    private, public = tmp_path / "key.pem", tmp_path / "key.pub.pem"
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    private.chmod(0o600)
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return private, public


def recorded(vectors_dir: Path) -> tuple[object, ...]:
    folder = vectors_dir / "sev-snp"
    return (folder / MILAN, "--endorsements", folder, *RECORDED, "--unchecked", "revocation=recorded")


def firmware_warning(document: dict[str, Any]) -> dict[str, str]:
    warnings: list[dict[str, str]] = document["warnings"]
    (warning,) = (each for each in warnings if each["code"] == "firmware-below-bulletin")
    return warning


def test_old_firmware_is_a_warning_that_changes_no_outcome(attest: Attest, vectors_dir: Path) -> None:
    ran = attest("appraise", *recorded(vectors_dir), "--json")
    assert (ran.code, ran.document["outcome"]) == (0, "affirmed")
    warning = firmware_warning(ran.document)
    assert "this machine's snp 8 is older than the fix of AMD-SB-3030 (29, 2026-05-12)" in warning["message"]
    assert f"warning: {warning['message']}" in ran.err


def test_an_operators_table_takes_the_place_of_the_built_in_one(
    attest: Attest, vectors_dir: Path, table: tuple[str, ...]
) -> None:
    ran = attest("appraise", *recorded(vectors_dir), *table, "--json")
    warning = firmware_warning(ran.document)
    assert "OURS-1 (255, 2026)" in warning["message"]
    assert "AMD-SB" not in warning["message"]


def test_a_draft_of_a_machine_with_old_firmware_says_so(
    attest: Attest, vectors_dir: Path, table: tuple[str, ...], tmp_path: Path
) -> None:
    drafted = tmp_path / "drafted.yaml"
    ran = attest("policy", "init", *recorded(vectors_dir), "-o", drafted)
    assert ran.code == 0
    assert "WEAKER than a strict policy: snp.minimum_tcb" in ran.err
    assert "OLD FIRMWARE: cpu: this machine's snp 8" in " ".join(drafted.read_text().replace("#", " ").split())
    own = attest("policy", "init", *recorded(vectors_dir), *table, "--json")
    assert any("OURS-1" in weak["reason"] for weak in own.document["weak"])
    linted = attest("policy", "lint", drafted, "--json", "--at", "2026-06-01T00:00:00Z")
    rules = {(one["rule"], one["path"]) for one in linted.document["policies"][0]["findings"]}
    assert ("firmware-below-bulletin", "snp.minimum_tcb.Milan.snp") in rules


def test_a_simulated_machine_has_no_firmware(attest: Attest, table: tuple[str, ...]) -> None:
    made = attest("simulate", "td", "--nonce-text", "x", "-o", "quote.bin", "--collateral-out", "intel.json")
    assert made.code == 0
    question = ("quote.bin", "--endorsements", "intel.json", "--nonce-text", "x", "--allow-simulated", "--offline")
    ran = attest("appraise", *question, *table, "--json")
    assert ran.document["items"][0]["claims"]["tcb_date"] < "2099"
    assert "firmware-below-bulletin" not in {warning["code"] for warning in ran.document["warnings"]}


@pytest.mark.parametrize("command", [("appraise", "x"), ("policy", "init", "x"), ("policy", "lint", "x"), ("doctor",)])
def test_a_table_needs_a_signature_and_a_key(
    attest: Attest, command: tuple[str, ...], table: tuple[str, ...], keys: tuple[Path, Path]
) -> None:
    Path("x").write_text("{}")
    for options in (table[:2], table[:4], (*table[:2], *table[4:]), table[2:4], table[4:]):
        ran = attest(*command, *options)
        assert (ran.code, "--firmware-table" in ran.err) == (2, True)


def test_a_table_that_a_stranger_signed_is_refused(attest: Attest, table: tuple[str, ...], tmp_path: Path) -> None:
    file = Path(table[1])
    file.write_text(file.read_text().replace("OURS-1", "OURS-2"))
    policy = tmp_path / "policy.yaml"
    policy.write_text("{}")
    ran = attest("policy", "lint", policy, *table)
    assert ran.code == 4
    assert "over another document" in ran.err


def test_a_changed_built_in_table_is_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    import attest.policy.firmware_table as module

    monkeypatch.setattr(module, "BUILT_IN_DIGEST", "00" * 32)
    with pytest.raises(RuntimeError, match="expected 0000"):
        built_in_table.__wrapped__()
