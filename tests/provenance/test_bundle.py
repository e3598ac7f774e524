"""Bundles of Sigstore: what holds, and everything that must not."""

import hashlib
import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID
from hypothesis import given, settings
from hypothesis import strategies as st

from attest.errors import AttestError
from attest.provenance import MAX_BUNDLE_BYTES, MAX_TRUSTED_ROOT_BYTES, VerifiedProvenance, verify_provenance
from tests.provenance.sigstore_made import (
    BUILDER,
    BUNDLE_0_1,
    BUNDLE_0_2,
    BUNDLE_0_3,
    COMMIT,
    IDENTITY,
    ISSUER,
    LOGGED,
    REPOSITORY,
    SUBJECT,
    Json,
    MadeSigstore,
    changed,
    log_body,
    new_key,
    period,
    sign,
    spki,
    statement_0_2,
    statement_1,
    text64,
)

MADE = MadeSigstore()
BUNDLE = MADE.bundle()
ROOT = MADE.trusted_root()
ENTRY = "verificationMaterial.tlogEntries.0"
PROOF = f"{ENTRY}.inclusionProof"
DAY = timedelta(days=1)


def verify(bundle: Json | bytes, *, root: Json | bytes = ROOT, **changes: Any) -> VerifiedProvenance:  # noqa: ANN401
    data = bundle if isinstance(bundle, bytes) else json.dumps(bundle).encode()
    trusted = root if isinstance(root, bytes) else json.dumps(root).encode()
    demanded = {"subject": SUBJECT, "identity": IDENTITY, "issuer": ISSUER} | changes
    return verify_provenance(data, trusted_root=trusted, **demanded)


def refusal(bundle: Json | bytes, *, root: Json | bytes = ROOT, **changes: Any) -> AttestError:  # noqa: ANN401
    with pytest.raises(AttestError) as raised:
        verify(bundle, root=root, **changes)
    assert raised.value.expected
    assert raised.value.got
    assert raised.value.hint
    return raised.value


@pytest.mark.parametrize("media_type", [BUNDLE_0_2, BUNDLE_0_3])
@pytest.mark.parametrize("statement", [statement_1(), statement_0_2()], ids=["v1", "v0.2"])
def test_a_bundle_gives_builder_sources_and_log_entry(media_type: str, statement: Json) -> None:
    found = verify(MADE.bundle(statement, media_type=media_type))
    stated = found.provenance
    assert (stated.builder, stated.repository, stated.release) == (BUILDER, REPOSITORY, "refs/tags/v1.2")
    assert (stated.commit, stated.subject) == (COMMIT, SUBJECT)
    assert (found.entry.index, found.entry.time) == (7003, LOGGED)
    assert found.entry.log == hashlib.sha256(spki(MADE.rekor)).digest()
    assert (found.identity, found.issuer) == (IDENTITY, ISSUER)


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, str]]:  # noqa: ANN401  any JSON
    if isinstance(value, str):
        yield path.removeprefix("."), value
    for name, inner in (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    ):
        yield from leaves(inner, f"{path}.{name}")


def altered(text: str) -> str:
    if text.isdigit():
        return str(int(text) + 1)
    middle = len(text) // 2
    return text[:middle] + ("B" if text[middle] == "A" else "A") + text[middle + 1 :]


@pytest.mark.parametrize(("path", "text"), [pytest.param(*leaf, id=leaf[0]) for leaf in leaves(BUNDLE)])
def test_no_value_of_a_bundle_can_be_altered(path: str, text: str) -> None:
    refusal(changed(BUNDLE, path, altered(text)))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("verificationMaterial.tlogEntries", []),
        ("verificationMaterial.tlogEntries", BUNDLE["verificationMaterial"]["tlogEntries"] * 2),
        (PROOF, ...),
        (f"{PROOF}.checkpoint", ...),
        (f"{ENTRY}.integratedTime", str(1 << 63)),
        ("verificationMaterial.certificate", ...),
        ("verificationMaterial.certificate.rawBytes", text64(b"no certificate")),
        ("dsseEnvelope.signatures", []),
        ("dsseEnvelope.signatures", BUNDLE["dsseEnvelope"]["signatures"] * 2),
        ("dsseEnvelope", ...),
        ("mediaType", "application/vnd.dev.sigstore.bundle.v0.4+json"),
        ("more", "unknown"),
    ],
)
def test_a_bundle_with_a_missing_or_second_part_is_malformed(path: str, value: object) -> None:
    assert refusal(changed(BUNDLE, path, value)).code == "provenance-malformed"


def respelled(text: str) -> str:
    """Set a bit of base64 text that stands for nothing."""
    body = text.rstrip("=")
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    return body[:-1] + alphabet[alphabet.index(body[-1]) + 1] + text[len(body) :]


LOG_ID = text64(hashlib.sha256(spki(MADE.rekor)).digest())
SECOND_SPELLINGS = [
    (f"{ENTRY}.logIndex", "07003"),
    (f"{ENTRY}.logIndex", " 7003"),
    (f"{PROOF}.treeSize", "+5"),
    (f"{ENTRY}.integratedTime", f"{int(LOGGED.timestamp()):_}"),
    (f"{ENTRY}.logId.keyId", respelled(LOG_ID)),
    (f"{ENTRY}.logId.keyId", f"{LOG_ID}\n"),
    (f"{ENTRY}.logId", {"key_id": LOG_ID}),
    ("messageSignature", None),
]


@pytest.mark.parametrize(("path", "value"), SECOND_SPELLINGS, ids=map(str, range(len(SECOND_SPELLINGS))))
def test_a_second_spelling_of_a_value_is_malformed(path: str, value: object) -> None:
    assert refusal(changed(BUNDLE, path, value)).code == "provenance-malformed"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("tlogs.0.logId.keyId", respelled(LOG_ID)),
        ("tlogs.0.operator", None),
        ("tlogs.0.publicKey.validFor.start", "1767225600"),
        ("tlogs.0.publicKey.validFor.start", "2026-01-01 00:00:00Z"),
    ],
    ids=["base64", "null", "number", "blank"],
)
def test_a_second_spelling_in_a_trusted_root_is_refused(path: str, value: object) -> None:
    assert refusal(BUNDLE, root=changed(ROOT, path, value)).code == "provenance-root-invalid"


def test_one_moment_of_a_trusted_root_may_have_another_zone_and_fractions() -> None:
    for start in ("2026-01-01T01:00:00+01:00", "2026-01-01T00:00:00.000Z"):
        assert verify(BUNDLE, root=changed(ROOT, "tlogs.0.publicKey.validFor.start", start)).entry.time == LOGGED


def respelled_signature(text: str) -> str:
    """Write the signature of a checkpoint with characters that are not base64, which lenient readers leave out."""
    return text[:-1] + "!!!!\n"


def checkpoint_of(bundle: Json) -> str:
    text: str = bundle["verificationMaterial"]["tlogEntries"][0]["inclusionProof"]["checkpoint"]["envelope"]
    return text


@pytest.mark.parametrize(
    "envelope",
    [
        respelled_signature,
        lambda text: text + "more\n",
        lambda text: text.replace("\u2014 ", "x\n\u2014 "),
    ],
    ids=["signature", "a line behind", "a line before"],
)
def test_a_second_spelling_of_the_checkpoint_is_refused(envelope: Callable[[str], str]) -> None:
    text = checkpoint_of(BUNDLE)
    found = refusal(changed(BUNDLE, f"{PROOF}.checkpoint.envelope", envelope(text)))
    assert found.code == "provenance-not-verified"


def test_further_lines_and_signatures_of_a_checkpoint_are_accepted() -> None:
    text = checkpoint_of(BUNDLE) + f"\u2014 witness.invalid {text64(b'abcdefgh')}\n"
    assert verify(changed(BUNDLE, f"{PROOF}.checkpoint.envelope", text)).entry.time == LOGGED


def test_timestamps_of_other_authorities_do_not_count() -> None:
    stamps = {"rfc3161Timestamps": [{"signedTimestamp": text64(bytes.fromhex("3005 3003020100"))}]}
    found = verify(changed(BUNDLE, "verificationMaterial.timestampVerificationData", stamps))
    assert found.entry.time == LOGGED


@pytest.mark.parametrize(
    "bundle",
    [
        changed(changed(BUNDLE, f"{ENTRY}.kindVersion.kind", "hashedrekord"), f"{ENTRY}.kindVersion.version", "0.0.2"),
        changed(BUNDLE, f"{ENTRY}.integratedTime", ...),
        changed(BUNDLE, f"{ENTRY}.integratedTime", "0"),
        changed(BUNDLE, f"{ENTRY}.inclusionPromise", ...),
        changed(
            changed(BUNDLE, f"{ENTRY}.inclusionPromise", ...),
            "verificationMaterial.timestampVerificationData",
            {"rfc3161Timestamps": [{"signedTimestamp": text64(bytes.fromhex("3005 3003020100"))}]},
        ),
        MADE.bundle(media_type=BUNDLE_0_1),
        changed(changed(BUNDLE, "dsseEnvelope", ...), "messageSignature", {"signature": text64(b"x")}),
        MADE.bundle(payload_type="text/plain"),
    ],
    ids=[
        "rekor v2",
        "no time",
        "time 0",
        "no promise",
        "a time that the log did not sign",
        "bundle 0.1",
        "no envelope",
        "no statement",
    ],
)
def test_another_kind_of_bundle_is_unsupported(bundle: Json) -> None:
    assert refusal(bundle).code == "provenance-unsupported"


@pytest.mark.parametrize("data", [b"", b"\xff", b"[" * 10_000, b'{"mediaType": 1, "mediaType": 2}', b"[]", b"7", b"{}"])
def test_bytes_that_are_no_bundle_are_refused(data: bytes) -> None:
    with pytest.raises(AttestError) as raised:
        verify(data)
    assert (raised.value.code, raised.value.exit_code) in {("json-invalid", 3), ("provenance-malformed", 3)}


def test_every_cut_of_a_bundle_is_refused() -> None:
    data = json.dumps(BUNDLE).encode()
    for size in range(0, len(data), 97):
        with pytest.raises(AttestError):
            verify(data[:size])


@settings(max_examples=150, deadline=None)
@given(part=st.sampled_from(["bundle", "root"]), share=st.floats(0, 1, exclude_max=True), byte=st.integers(0, 255))
def test_any_other_byte_gives_the_same_result_or_a_documented_refusal(part: str, share: float, byte: int) -> None:
    files = {"bundle": bytearray(json.dumps(BUNDLE).encode()), "root": bytearray(json.dumps(ROOT).encode())}
    files[part][int(share * len(files[part]))] = byte
    try:
        found = verify(bytes(files["bundle"]), root=bytes(files["root"]))
    except AttestError as exc:
        assert exc.exit_code in {2, 3, 4, 5}  # noqa: PT017  most bytes are refused, a blank is not
    else:
        assert found == verify(BUNDLE)


def twice(document: Json, name: str) -> bytes:
    """The document with one of its first members given twice."""
    member = json.dumps({name: document[name]})[1:-1]
    return f"{{{member}, {json.dumps(document)[1:]}".encode()


def test_a_member_that_is_given_twice_is_refused() -> None:
    with pytest.raises(AttestError) as raised:
        verify(twice(BUNDLE, "mediaType"))
    assert raised.value.code == "json-invalid"
    assert refusal(BUNDLE, root=twice(ROOT, "tlogs")).code == "provenance-root-invalid"


def test_sizes_are_bounded() -> None:
    assert refusal(json.dumps(BUNDLE).encode().ljust(MAX_BUNDLE_BYTES + 1)).code == "provenance-malformed"
    root = json.dumps(ROOT).encode()
    assert refusal(BUNDLE, root=root.ljust(MAX_TRUSTED_ROOT_BYTES + 1)).code == "provenance-root-invalid"
    padded = verify(json.dumps(BUNDLE).encode().ljust(MAX_BUNDLE_BYTES), root=root.ljust(MAX_TRUSTED_ROOT_BYTES))
    assert padded.entry.time == LOGGED


def test_an_altered_payload_and_a_swapped_envelope_do_not_hold() -> None:
    other = statement_1(subject=[{"name": "fleet.json", "digest": {"sha256": "00" * 32}}])
    payload = changed(BUNDLE, "dsseEnvelope.payload", text64(json.dumps(other).encode()))
    assert refusal(payload).code == "provenance-not-verified"
    # The same signer signed both, so that only the entry of the log tells them apart.
    certificate = MADE.certificate()
    one, two = MADE.bundle(certificate=certificate), MADE.bundle(statement_0_2(), certificate=certificate)
    assert refusal(one | {"dsseEnvelope": two["dsseEnvelope"]}).code == "provenance-not-verified"
    assert refusal(one | {"verificationMaterial": two["verificationMaterial"]}).code == "provenance-not-verified"


@pytest.mark.parametrize(
    "certificate",
    [
        MADE.certificate(sct=False),
        MadeSigstore(ca=MADE.ca).certificate(public=MADE.signer.public_key()),
        MadeSigstore(ct=MADE.ct).certificate(public=MADE.signer.public_key()),
        MADE.certificate(usage=ExtendedKeyUsageOID.SERVER_AUTH),
        MADE.certificate(public=new_key().public_key()),
        MADE.certificate(public=rsa.generate_private_key(65537, 2048).public_key()),
    ],
    ids=["no SCT", "SCT of another log", "another authority", "not for code", "another key", "RSA"],
)
def test_a_certificate_that_does_not_fit_is_refused(certificate: Any) -> None:  # noqa: ANN401  any certificate
    assert refusal(MADE.bundle(certificate=certificate)).code == "provenance-not-verified"


@pytest.mark.parametrize("begin", [LOGGED + timedelta(seconds=1), LOGGED - timedelta(minutes=10, seconds=1)])
def test_a_certificate_that_is_not_valid_at_the_time_of_the_log_is_refused(begin: datetime) -> None:
    assert refusal(MADE.bundle(certificate=MADE.certificate(begin=begin))).code == "provenance-not-verified"


def logged_by(other: MadeSigstore, part: str) -> Json:
    """Replace a part of the log entry by that of another log over the same body."""
    certificate = MADE.certificate()
    made = MADE.bundle(certificate=certificate)
    payload = json.dumps(statement_1()).encode()
    signature = made["dsseEnvelope"]["signatures"][0]["sig"]
    body = json.loads(log_body(payload, b"", certificate))
    body["spec"]["signatures"][0]["signature"] = signature
    entry = other.log_entry(json.dumps(body).encode())
    value: Any = entry
    for step in part.split("."):
        value = value[step]
    return changed(made, f"{ENTRY}.{part}", value)


@pytest.mark.parametrize("part", ["inclusionPromise", "inclusionProof.checkpoint"])
def test_another_log_cannot_sign_for_the_trusted_one(part: str) -> None:
    assert verify(logged_by(MADE, part)).entry.time == LOGGED
    assert refusal(logged_by(MadeSigstore(), part)).code == "provenance-not-verified"


def test_a_checkpoint_of_another_tree_is_refused() -> None:
    other = changed(BUNDLE, f"{PROOF}.checkpoint.envelope", MADE.checkpoint(5, b"\1" * 32))
    assert refusal(other).code == "provenance-not-verified"


def test_a_proof_for_another_size_than_the_signed_one_is_refused() -> None:
    proof = BUNDLE["verificationMaterial"]["tlogEntries"][0]["inclusionProof"]
    assert proof["treeSize"] == "5"
    error = refusal(changed(BUNDLE, f"{PROOF}.treeSize", "6"))
    assert (error.code, "size 6" in str(error.got)) == ("provenance-not-verified", True)


def test_a_promise_over_another_time_is_refused() -> None:
    later = str(int((LOGGED + timedelta(seconds=1)).timestamp()))
    assert refusal(changed(BUNDLE, f"{ENTRY}.integratedTime", later)).code == "provenance-not-verified"


def test_the_whole_identity_and_issuer_must_be_those_demanded() -> None:
    for wrong in (IDENTITY[:-1], f"{IDENTITY}.1", IDENTITY.upper()):
        error = refusal(BUNDLE, identity=wrong)
        assert (error.code, error.expected, error.exit_code) == ("provenance-identity-mismatch", wrong, 4)
    for wrong in (ISSUER[:-1], f"{ISSUER}/x"):
        assert refusal(BUNDLE, issuer=wrong).code == "provenance-issuer-mismatch"
    bare = MADE.bundle(certificate=MADE.certificate(issuer=None))
    assert refusal(bare).code == "provenance-issuer-mismatch"
    mail = MADE.bundle(certificate=MADE.certificate(identity=None))
    assert refusal(mail).code == "provenance-identity-mismatch"


@pytest.mark.parametrize(("identity", "issuer"), [("", ISSUER), (IDENTITY, "")])
def test_an_empty_demand_is_refused(identity: str, issuer: str) -> None:
    error = refusal(BUNDLE, identity=identity, issuer=issuer)
    assert (error.code, error.exit_code) == ("provenance-signer-empty", 2)


@pytest.mark.parametrize("name", ["ca", "ct", "rekor"])
@pytest.mark.parametrize(
    "validity", [period(end=LOGGED - DAY), period(LOGGED + DAY)], ids=["ended before", "began after"]
)
def test_trust_material_counts_at_the_time_of_the_log_only(name: str, validity: Json) -> None:
    error = refusal(BUNDLE, root=MADE.trusted_root(**{name: validity}))
    assert (error.code, error.exit_code) == ("provenance-root-not-valid", 5)
    assert verify(BUNDLE, root=MADE.trusted_root(**{name: period(LOGGED, LOGGED)})).entry.time == LOGGED


def test_an_abandoned_key_beside_a_valid_one_does_not_count() -> None:
    other = MadeSigstore().trusted_root()
    for name, path in (("rekor", "tlogs"), ("ct", "ctlogs"), ("ca", "certificateAuthorities")):
        ended = MADE.trusted_root(**{name: period(end=LOGGED - DAY)})
        root = ended | {path: [*ended[path], *other[path]]}
        assert refusal(BUNDLE, root=root).code == "provenance-not-verified"


def test_another_instance_of_sigstore_is_not_trusted() -> None:
    assert refusal(BUNDLE, root=MadeSigstore().trusted_root()).code == "provenance-not-verified"


@pytest.mark.parametrize(
    "root",
    [
        b"",
        b"{}",
        b"[]",
        changed(ROOT, "mediaType", "application/json"),
        changed(ROOT, "mediaType", "application/vnd.dev.sigstore.trustedroot.v0.2+json"),
        changed(ROOT, "tlogs", ...),
        changed(ROOT, "tlogs.0.publicKey.validFor.start", "2026-01-01T00:00:00"),
        changed(ROOT, "tlogs.0.publicKey.validFor.start", "yesterday"),
    ],
)
def test_a_trusted_root_that_cannot_be_read_is_the_operators_error(root: Json | bytes) -> None:
    error = refusal(BUNDLE, root=root)
    assert (error.code, error.exit_code) == ("provenance-root-invalid", 2)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("tlogs.0.publicKey.rawBytes", text64(b"no key")),
        ("ctlogs.0.publicKey.rawBytes", text64(b"no key")),
        ("certificateAuthorities.0.certChain.certificates.0.rawBytes", text64(b"no certificate")),
        ("certificateAuthorities.0.certChain.certificates", []),
    ],
)
def test_a_trusted_root_with_a_broken_key_trusts_nothing(path: str, value: object) -> None:
    assert refusal(BUNDLE, root=changed(ROOT, path, value)).code == "provenance-not-verified"


def test_the_provenance_of_another_document_is_refused() -> None:
    error = refusal(BUNDLE, subject=b"\0" * 32)
    assert (error.code, error.got, error.exit_code) == ("provenance-subject-mismatch", SUBJECT.hex(), 4)


def test_a_signed_statement_that_is_no_provenance_is_refused() -> None:
    assert refusal(MADE.bundle(statement_1(subject=[]))).code == "provenance-statement-invalid"
    with pytest.raises(AttestError) as raised:
        verify(MADE.bundle(b"no JSON"))
    assert raised.value.code == "json-invalid"


def test_nothing_of_a_statement_is_read_before_its_signature_holds() -> None:
    forged = MADE.bundle(b"no JSON")
    wrong = changed(forged, "dsseEnvelope.signatures.0.sig", text64(sign(new_key(), b"x")))
    assert refusal(wrong).code == "provenance-not-verified"
