"""``kms admin`` and the first administrator of a new service."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.kms.test_cli import Shell, shell

__all__ = ["shell"]

ALICE = "jwt:https://login.test|alice"
PIN = "mtls:sha256:" + "ab" * 32


def test_mc_31_the_first_administrator_is_named_at_init_and_nobody_by_default(shell: Shell) -> None:
    shell.init("--administrator", ALICE)
    (grant,) = json.loads(shell.with_config("admin", "list", "--json")[0])["grants"]
    assert (grant["identity"], grant["role"], grant["tenant"]) == (ALICE, "administrator", "*")
    assert grant["granted_by"].startswith("local:")
    assert "grant-added" in shell.with_config("log", "list")[0]
    shell.with_config("fsck")


def test_mc_31_without_a_name_there_is_no_administrator(shell: Shell) -> None:
    shell.init()
    out, err = shell.with_config("admin", "list")
    assert out == ""
    assert "kms admin grant IDENTITY administrator" in err


def test_an_administrator_whose_name_is_none_leaves_nothing_behind(shell: Shell) -> None:
    folder = shell.folder / "svc"
    _, err = shell.run("init", str(folder), "--origin", "kms.test/x", "--administrator", "root", code=2)
    assert "[identity-invalid]" in err
    assert "kms admin whois" in err
    assert not folder.exists()


def test_roles_are_given_listed_and_taken_away(shell: Shell) -> None:
    shell.init("--administrator", ALICE)
    _, err = shell.with_config("admin", "grant", PIN, "key-owner", "--tenant", "team-a")
    assert "warning: there is no tenant 'team-a'" in err
    _, err = shell.with_config("admin", "grant", PIN, "auditor", "--tenant", "*")
    assert "warning" not in err
    assert f"{PIN}  key-owner  for team-a  by local:" in shell.with_config("admin", "list")[0]
    assert shell.with_config("admin", "revoke", "2")[0].startswith("revoked: ")
    assert "team-a" not in shell.with_config("admin", "list")[0]
    rows = json.loads(shell.with_config("admin", "list", "--all", "--json")[0])
    assert rows["schema"] == "kms.grants/1"
    assert [row["revoked_at"] is None for row in rows["grants"]] == [True, False, True]
    assert "  revoked\n" in shell.with_config("admin", "list", "--all")[0]


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("grant", PIN, "auditor"), 2, "--tenant"),
        (("grant", PIN, "king", "--tenant", "a"), 2, "[role-unknown]"),
        (("grant", "local:root", "auditor", "--tenant", "a"), 2, "[identity-invalid]"),
        (("grant", PIN, "auditor", "--tenant", "A"), 2, "[tenant-invalid]"),
        (("grant", PIN, "administrator", "--tenant", "a"), 2, "[role-service-wide]"),
        (("grant", ALICE, "administrator"), 1, "[grant-exists]"),
        (("revoke", "7"), 1, "[grant-unknown]"),
        (("revoke", "1"), 1, "[last-administrator]"),
        (("revoke", "one"), 2, "one"),
    ],
)
def test_what_cannot_be_granted_or_revoked_is_refused(
    shell: Shell, arguments: tuple[str, ...], code: int, text: str
) -> None:
    shell.init("--administrator", ALICE)
    assert text in shell.with_config("admin", *arguments, code=code)[1]


def certificate(folder: Path, *more: str, subject: str = "/O=Team/CN=alice") -> Path:
    path = folder / "some.crt"
    openssl = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    files = ["-keyout", str(folder / "some.key"), "-out", str(path)]
    subprocess.run([*openssl, *files, "-subj", subject, *more], check=True, capture_output=True)
    return path


def test_the_names_of_a_certificate_are_those_that_openssl_gives_it(shell: Shell) -> None:
    path = certificate(shell.folder, "-addext", "subjectAltName=URI:spiffe://team/alice,DNS:alice.test")
    public = subprocess.run(["openssl", "x509", "-in", path, "-noout", "-pubkey"], check=True, capture_output=True)
    der = subprocess.run(
        ["openssl", "pkey", "-pubin", "-outform", "DER"], input=public.stdout, check=True, capture_output=True
    )
    digest = subprocess.run(["openssl", "sha256", "-r"], input=der.stdout, check=True, capture_output=True, text=False)
    out, _ = shell.run("admin", "whois", str(path))
    pin = digest.stdout.decode().split()[0]
    assert out.splitlines() == [
        f"mtls:sha256:{pin}",
        "mtls:uri:spiffe://team/alice",
        "mtls:subject:CN=alice,O=Team",
    ]


def test_a_certificate_with_two_uris_or_without_a_subject_has_no_such_name(shell: Shell) -> None:
    path = certificate(shell.folder, "-addext", "subjectAltName=URI:spiffe://a,URI:spiffe://b", subject="/")
    out, _ = shell.run("admin", "whois", str(path))
    assert [line.split(":")[1] for line in out.splitlines()] == ["sha256"]


def test_what_is_no_certificate_has_no_names(shell: Shell) -> None:
    assert "[certificate-unreadable]" in shell.run("admin", "whois", str(shell.policy), code=2)[1]
