"""`attest measure gce`: endorsed measurements, for people, for programs and for a policy."""

from hashlib import sha384
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from tests.cli.conftest import Attest
from tests.measure.made_endorsements import changed, endorsement, root

WHOLE = ("measure", "gce", "endorsement", "--root", "root", "--at", "2026-11-01T00:00:00Z")


@pytest.fixture(autouse=True)
def files(tmp_path: Path) -> None:
    (tmp_path / "ovmf").write_bytes(b"firmware")
    (tmp_path / "endorsement").write_bytes(endorsement(changed(digest=sha384(b"firmware").digest())))
    (tmp_path / "root").write_bytes(root().public_bytes(Encoding.DER))


def test_a_line_for_each_measurement(attest: Attest) -> None:
    ran = attest(*WHOLE, "--ovmf", "ovmf")
    assert (ran.code, ran.err) == (0, "")
    assert [line[:27].strip() for line in ran.out.splitlines()] == [
        "TDX, any memory",
        "TDX, 16 GiB",
        "TDX, 16 GiB",
        "SEV-SNP, 1 vCPU",
        "SEV-SNP, 2 vCPU",
    ]


def test_the_document_names_firmware_and_measurements(attest: Attest) -> None:
    document = attest(*WHOLE, "--json").document
    assert (document["schema"], document["kind"]) == ("attest.measurement/1", "gce")
    assert document["issued"] == "2026-11-01T00:00:00Z"
    assert document["firmware_sha384"] == sha384(b"firmware").hexdigest()
    assert [row.get("ram_gib", row.get("vcpus")) for row in document["measurements"]] == [0, 16, 16, 1, 2]


def test_a_snippet_is_a_part_of_a_policy_that_loads(attest: Attest) -> None:
    from attest.policy import load_policy

    rest = "schema: attest.policy/1\nname: p\nversion: 1\ntdx:\n  mr_td: [c3-mr-td]\n  rtmr1: {unchecked: a test}\n"
    ran = attest(*WHOLE, "--policy-snippet", "--name", "c3")
    policy = load_policy((ran.out + rest).encode())
    assert any("c3-mr-td" in rule.expected for rule in policy.rules["tdx"])


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--root", "ovmf"], 2, "no root of launch endorsements"),
        (["--root", "absent"], 2, "cannot be read"),
        (["--ovmf", "absent"], 2, "cannot be read"),
        (["--ovmf", "root"], 4, "is not the endorsed firmware"),
        (["--at", "2027-11-01T00:00:00Z"], 4, "expired"),
        (["--policy-snippet", "--json"], 2, "both use"),
    ],
)
def test_what_is_not_endorsed(attest: Attest, options: list[str], code: int, said: str) -> None:
    ran = attest(*WHOLE, *options)
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err


def test_a_file_that_is_no_endorsement(attest: Attest) -> None:
    ran = attest("measure", "gce", "ovmf", "--root", "root")
    assert ran.code == 3
    assert attest("measure", "gce", "endorsement").code == 2
