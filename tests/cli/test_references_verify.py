"""`attest references verify`."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import WHEN, Attest, Files
from tests.provenance.sigstore_made import (
    BUILDER,
    COMMIT,
    IDENTITY,
    ISSUER,
    REPOSITORY,
    MadeSigstore,
    changed,
    statement_1,
)

MADE = MadeSigstore()
DOCUMENT = json.dumps(
    {
        "schema": "attest.references/1",
        "name": "fleet",
        "version": 3,
        "origin": "us",
        "issued": "2026-01-01T00:00:00Z",
        "expires": "2026-07-01T00:00:00Z",
        "values": {"image": {"kind": "snp-measurement", "values": ["01" * 48]}},
    }
).encode()
DIGEST = hashlib.sha256(DOCUMENT).hexdigest()
SUBJECT = [{"name": "fleet.json", "digest": {"sha256": DIGEST}}]


@pytest.fixture
def line(files: Files) -> tuple[object, ...]:
    document = files.write("fleet.json", DOCUMENT)
    bundle = files.write("bundle.json", json.dumps(MADE.bundle(statement_1(subject=SUBJECT))).encode())
    root = files.write("root.json", json.dumps(MADE.trusted_root()).encode())
    named = ("--provenance", bundle, "--trusted-root", root, "--identity", IDENTITY, "--issuer", ISSUER)
    return ("references", "verify", document, *named, "--at", WHEN)


def test_builder_sources_and_log_entry_are_printed(attest: Attest, line: tuple[object, ...]) -> None:
    ran = attest(*line, "--json")
    found: dict[str, Any] = ran.document
    assert (ran.code, found["schema"]) == (0, "attest.references-provenance/1")
    assert (found["name"], found["version"], found["state"], found["subject"]) == ("fleet", 3, "current", DIGEST)
    assert (found["release"], found["repository"], found["commit"]) == ("refs/tags/v1.2", REPOSITORY, COMMIT)
    assert (found["builder"], found["identity"], found["issuer"]) == (BUILDER, IDENTITY, ISSUER)
    assert (found["log_entry"]["index"], found["log_entry"]["time"]) == (7003, "2026-06-01T12:00:00Z")
    page = attest(*line)
    assert (page.code, REPOSITORY in page.out, "7003" in page.out) == (0, True, True)
    assert attest(*line, "-q").out == ""


def test_sources_that_are_not_stated_are_null(attest: Attest, files: Files, line: tuple[object, ...]) -> None:
    bare = changed(statement_1(subject=SUBJECT), "predicate.buildDefinition", {})
    files.write("bundle.json", json.dumps(MADE.bundle(bare)).encode())
    found = attest(*line, "--json").document
    assert (found["release"], found["repository"], found["commit"]) == (None, None, None)
    assert "not stated" in attest(*line).out


def test_a_document_with_one_other_byte_is_refused(attest: Attest, files: Files, line: tuple[object, ...]) -> None:
    files.write("fleet.json", DOCUMENT + b"\n")
    ran = attest(*line)
    assert (ran.code, ran.out) == (4, "")
    assert "another document" in ran.err


def test_another_signer_is_refused(attest: Attest, line: tuple[object, ...]) -> None:
    ran = attest(*line, "--identity", "https://builder.invalid/somebody", "--json")
    assert ran.code == 4
    assert REPOSITORY not in ran.out
    assert attest(*line, "--issuer", "").code == 2


@pytest.mark.parametrize("name", ["--provenance", "--trusted-root", "--identity", "--issuer"])
def test_nothing_that_is_demanded_can_be_left_out(attest: Attest, line: tuple[object, ...], name: str) -> None:
    place = line.index(name)
    ran = attest(*line[:place], *line[place + 2 :])
    assert (ran.code, f"'{name}'" in ran.err) == (2, True)


def test_inputs_that_cannot_be_read_are_exit_2(attest: Attest, line: tuple[object, ...]) -> None:
    assert attest(*line, "--provenance", "absent").code == 2
    assert attest(*line, "--provenance", "-", "--trusted-root", "-").code == 2
    Path("junk").write_bytes(b"\xff")
    assert attest(*line, "--trusted-root", "junk").code == 2
    assert attest(*line, "--provenance", "junk").code == 3
