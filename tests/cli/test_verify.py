"""`attest verify`: the outcome, the document, and the order of refusals."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import LAB, WHEN, Attest, Files
from tests.results.tokens import Signer

MEMBERS = {
    "schema",
    "command",
    "outcome",
    "at",
    "simulated",
    "freshness",
    "unchecked",
    "error",
    "items",
    "warnings",
    "checks",
}


def test_genuine_evidence_is_verified(attest: Attest, files: Files) -> None:
    ran = attest("verify", files.extended, *LAB, "--nonce-text", files.NONCE, "--json")
    assert ran.code == 0
    document = ran.document
    assert set(document) == MEMBERS | {"evidence_digest", "ignored_items"}
    assert document["schema"] == "attest.result/1"
    assert (document["command"], document["outcome"], document["freshness"]) == ("verify", "verified", "matched")
    assert document["at"] == WHEN
    assert document["simulated"] is True
    assert document["error"] is None
    (item,) = document["items"]
    assert (item["name"], item["kind"]) == ("cpu", "sev-snp")
    assert item["claims"]["measurement"] == files.guest.measurement.hex()
    assert [link["name"] for link in item["chain"]] == ["SIMULATED ARK-Genoa", "SEV-Genoa", "SEV-VCEK", "report"]
    assert {"id", "outcome", "tier", "expected", "got", "clause"} <= set(document["checks"][0])


def test_the_chain_of_proof_is_a_tree_that_grows_from_the_root(attest: Attest, files: Files) -> None:
    lines = attest("verify", files.extended, *LAB, "--nonce-text", files.NONCE).out.splitlines()
    start = next(number for number, line in enumerate(lines) if line.strip() == "chain of proof")
    links = [line for line in lines[start + 1 :] if "└── " in line]
    depth = [line.index("└── ") for line in links]
    assert depth == sorted(set(depth))
    names = ("SIMULATED ARK-Genoa", "SEV-Genoa", "SEV-VCEK", "report")
    assert [line.split("└── ")[1].startswith(name) for line, name in zip(links, names, strict=True)] == [True] * 4


def test_failed_checks_come_first_and_again_at_the_end(attest: Attest, files: Files) -> None:
    lines = attest("verify", files.flipped, *LAB).out.splitlines()
    checks = lines.index("checks")
    assert "snp.signature" in lines[checks + 1]
    assert [line for line in lines[checks + 2 :] if "pass" in line], "the others follow"
    failed = lines.index("failed")
    assert (failed > checks, "snp.signature" in lines[failed + 1]) == (True, True)
    assert lines[-1].startswith("REFUSED")


def test_a_refusal_is_one_json_document_too_with_the_error_on_standard_error(attest: Attest, files: Files) -> None:
    ran = attest("verify", files.flipped, *LAB, "--json")
    assert ran.code == 4
    assert set(ran.document) == MEMBERS
    assert ran.document["outcome"] == "refused"
    assert ran.document["error"]["code"] == "snp-signature-invalid"
    assert ran.document["items"] == []
    assert ran.check("snp.signature")["outcome"] == "fail"
    assert "error: the report's signature does not verify" in ran.err


@pytest.mark.parametrize("how", ["raw", "hex", "base64", "stdin"])
def test_binary_hex_base64_and_standard_input_are_the_same(attest: Attest, files: Files, how: str) -> None:
    import base64

    data = files.extended.read_bytes()
    encoded = {"hex": data.hex().encode(), "base64": base64.b64encode(data)}.get(how, data)
    given = "-" if how == "stdin" else files.write("given", encoded)
    ran = attest("verify", given, *LAB, "--json", stdin=encoded if how == "stdin" else b"")
    assert ran.code == 0


def test_certificates_may_come_beside_the_report(attest: Attest, files: Files) -> None:
    parts = [files.endorsements / name for name in ("leaf.der", "intermediate.der", "root.der", "below/crl.der")]
    assert attest("verify", files.report, *parts, *LAB, "-q").code == 0


def test_a_directory_of_endorsements_is_searched_with_notes_and_warnings(attest: Attest, files: Files) -> None:
    folder = files.endorsements
    (folder / "below" / "broken.der").write_bytes((folder / "leaf.der").read_bytes()[:-10])
    ran = attest("verify", files.report, "--endorsements", folder, *LAB)
    assert ran.code == 0
    assert "warning:" in ran.err
    assert "broken.der" in ran.err
    assert "README" not in ran.err
    ran = attest("verify", files.report, "--endorsements", folder, *LAB, "--verbose")
    assert "README: no certificate" in ran.err
    ran = attest("verify", files.report, "--endorsements", folder, *LAB, "--quiet")
    assert (ran.code, ran.out, ran.err) == (0, "", "")


def test_what_cannot_be_opened_below_a_directory_is_passed_over_with_a_warning(attest: Attest, files: Files) -> None:
    folder = files.endorsements
    (folder / "gone.der").symlink_to("nowhere")
    (folder / "loop").symlink_to(".")
    ran = attest("verify", files.report, "--endorsements", folder, *LAB)
    assert ran.code == 0
    assert "gone.der" in ran.err


def test_missing_endorsements_are_exit_5_when_offline(attest: Attest, files: Files) -> None:
    ran = attest("verify", files.report, *LAB, "--json")
    assert ran.code == 5
    assert ran.document["error"]["code"] == "snp-leaf-missing"
    assert "hint: " in ran.err
    assert attest("verify", files.without_crl, *LAB, "--json").code == 5


def test_revocation_may_be_left_unchecked_with_a_reason_that_shows(attest: Attest, files: Files) -> None:
    ran = attest("verify", files.without_crl, *LAB, "--unchecked", "revocation=no list here", "--json")
    assert ran.code == 0
    assert ran.document["unchecked"] == [{"check": "revocation", "reason": "no list here"}]
    assert ran.check("snp.revocation")["outcome"] == "not evaluated"
    page = attest("verify", files.without_crl, *LAB, "--unchecked", "revocation=no list here")
    assert "UNCHECKED  revocation: no list here" in page.out


def test_simulated_evidence_is_refused_unless_asked_for(attest: Attest, files: Files) -> None:
    ran = attest("verify", files.extended, "--offline", "--at", WHEN, "--json")
    assert ran.code == 4
    assert ran.document["error"]["code"] == "simulated-root-refused"
    assert ran.document["simulated"] is True


def test_every_page_about_simulated_evidence_shouts(attest: Attest, files: Files) -> None:
    for ran in (attest("verify", files.extended, *LAB), attest("appraise", files.extended, *LAB)):
        assert ran.out.startswith("*** SIMULATED")
        assert "(SIMULATED)" in ran.out.splitlines()[-1] + ran.out.splitlines()[-2]
        assert "warning: SIMULATED" in ran.err


@pytest.mark.parametrize(
    ("options", "code", "freshness"),
    [
        (["--nonce-text", "question"], 0, "matched"),
        (["--nonce", b"question".hex()], 0, "matched"),
        (["--report-data", b"question".ljust(64, b"\0").hex()], 0, "matched"),
        (["--nonce-text", "question", "--report-data", b"question".ljust(64, b"\0").hex()], 0, "matched"),
        (["--nonce-text", "question", "--nonce", b"question".hex()], 0, "matched"),
        (["--nonce-text", "other"], 4, "mismatched"),
        (["--report-data", bytes(64).hex()], 4, "mismatched"),
        ([], 0, "not evaluated"),
    ],
)
def test_freshness(attest: Attest, files: Files, options: list[str], code: int, freshness: str) -> None:
    ran = attest("verify", files.extended, *LAB, *options, "--json")
    assert (ran.code, ran.document["freshness"]) == (code, freshness)


def test_with_a_binding_nonce_and_report_data_are_two_fields(attest: Attest, files: Files) -> None:
    from tests.samples import NONCE, binding

    common = ("verify", files.bound, "--endorsements", files.endorsements, *LAB, "--json")
    both = ("--nonce", NONCE.hex(), "--report-data", binding().report_data().hex())
    assert attest(*common, *both).code == 0
    assert attest(*common, "--nonce", NONCE.hex(), "--report-data", bytes(64).hex()).code == 4


def test_malformed_comes_before_does_not_hold_before_endorsements(attest: Attest, files: Files) -> None:
    wrong = ("--nonce-text", "another question")
    assert attest("verify", files.report, *LAB, *wrong, "--json").document["error"]["code"] == "nonce-mismatch"
    malformed = files.write("malformed", files.report.read_bytes() + b"\0")
    assert attest("verify", malformed, *LAB, *wrong, "--json").code == 3


def test_what_is_empty_or_of_another_kind_is_exit_3(attest: Attest, files: Files) -> None:
    quote = b"\x04\0\x02\0\x81\0\0\0" + bytes(700)
    for data, code in ((b"", "evidence-empty"), (b"nonsense", None), (quote, "quote-vendor-unsupported")):
        ran = attest("verify", files.write("given", data), *LAB, "--json")
        assert ran.code == 3
        assert ran.document["checks"][0]["outcome"] == "fail"
        assert code in (None, ran.document["error"]["code"])


def test_a_form_can_be_demanded(attest: Attest, files: Files) -> None:
    assert attest("verify", files.extended, *LAB, "--form", "snp-extended", "-q").code == 0
    ran = attest("verify", files.extended, *LAB, "--form", "snp-report", "--json")
    assert (ran.code, ran.document["error"]["code"]) == (3, "evidence-form-mismatch")


def test_the_forms_of_the_option_are_those_of_the_reader() -> None:
    from attest.cli import options
    from attest.evidence.input_file import FORMS
    from attest.evidence.snp.tcb import SnpProduct

    assert options.FORMS == FORMS
    assert tuple(map(str, SnpProduct)) == options.PRODUCTS


def test_an_anchor_file_takes_roots_away(attest: Attest, files: Files, vectors_dir: Path) -> None:
    snp = vectors_dir / "sev-snp"
    real = ("verify", snp / "genoa-v5-vcek/report.bin", "--offline", "--at", "2026-11-01T00:00:00Z")
    more = ("--endorsements", snp / "genoa-v5-vcek", "--endorsements", snp / "certs/genoa", "--unchecked")
    removed = files.write("anchors.toml", b'schema = "attest.anchors/1"\nremove = ["ARK-Genoa"]\n')
    assert attest(*real, *more, "revocation=recorded", "-q").code == 0
    assert attest(*real, *more, "revocation=recorded", "--anchors", removed, "-q").code == 4


def test_only_signed_bundles_count_when_keys_are_given(attest: Attest, files: Files) -> None:
    bundle = files.folder / "bundle"
    assert attest("simulate", "endorsements", "--at", "2026-05-01T00:00:00Z", "--days", "60", "-o", bundle).code == 0
    assert attest("verify", files.report, "--endorsements", bundle, *LAB, "-q").code == 0
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    public = Ed25519PrivateKey.from_private_bytes(bytes(32)).public_key()
    key = files.write("key.pub", public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    ran = attest("verify", files.report, "--endorsements", bundle, "--bundle-key", key, *LAB)
    assert ran.code == 5
    assert "bundle-unsigned" in ran.err


def test_trust_is_read_and_said_to_be_for_tokens(attest: Attest, files: Files) -> None:
    keys = files.write("jwks.json", Signer().jwks())
    ran = attest("verify", files.extended, *LAB, "--trust", f"https://issuer.example={keys}", "-v")
    assert ran.code == 0
    assert "note: --trust is only for tokens" in ran.err
    ran = attest("verify", files.extended, *LAB, "--trust", f"https://issuer.example={files.report}")
    assert ran.code == 2
    assert "key set" in ran.err


def test_what_strangers_wrote_cannot_control_the_terminal(attest: Attest, files: Files) -> None:
    evil = "\x1b[2J\u202eevil"
    documents = json.loads(files.bound.read_text())
    documents[evil.replace("\x1b", "")[:20]] = ["application/x-unknown", "AAAA"]
    named = files.write("odd\x1b[31mname.bin", b"nonsense")
    ran = attest("verify", named, *LAB)
    assert ran.code == 3
    assert "\x1b" not in ran.out + ran.err
    assert "\\x1b" in ran.err
    ran = attest("verify", files.extended, *LAB, "--unchecked", f"rim={evil}")
    assert "\x1b" not in ran.out
    assert "\u202e" not in ran.out


def test_verbose_shows_every_claim_and_every_check_in_full(attest: Attest, files: Files) -> None:
    ran = attest("verify", files.extended, *LAB, "--verbose")
    for name in ("policy.debug", "platform_info.alias_check_complete", "report_id_ma", "firmware_rollback_protected"):
        assert name in ran.out
    assert "AMD 56860, SIGNATURE" in ran.out


def test_a_page_fits_into_80_columns_and_cuts_no_digest(attest: Attest, files: Files) -> None:
    ran = attest("appraise", files.extended, *LAB, "--policy", files.policy(measurement=b"\x11" * 48))
    assert max(map(len, ran.out.splitlines())) <= 80
    joined = "".join(line.strip() for line in ran.out.splitlines())
    for value in (files.guest.measurement.hex(), ("11" * 48), files.guest.chip.chip_id.hex()):
        assert value in joined
