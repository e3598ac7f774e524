"""Sigstore's bundles in the page: what holds, and every refusal with its code, as in Python."""

import base64
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID

from attest.errors import AttestError
from attest.provenance import VerifiedProvenance, verify_provenance
from tests.page.browser import Verifier
from tests.provenance.sigstore_made import (
    BUNDLE_0_1,
    BUNDLE_0_2,
    IDENTITY,
    ISSUER,
    LOGGED,
    SUBJECT,
    Json,
    MadeSigstore,
    changed,
    new_key,
    period,
    statement_0_2,
    statement_1,
    text64,
)
from tests.provenance.test_bundle import SECOND_SPELLINGS, twice
from tests.provenance.test_recorded_bundles import ISSUER as PUBLIC_ISSUER
from tests.provenance.test_recorded_bundles import RECORDED, bundle_in, public_root

pytestmark = pytest.mark.loopback
MADE = MadeSigstore()
CERTIFICATE = MADE.certificate()
BUNDLE = MADE.bundle(certificate=CERTIFICATE)
ROOT = MADE.trusted_root()
MATERIAL = "verificationMaterial"
ENTRY = f"{MATERIAL}.tlogEntries.0"
PROOF = f"{ENTRY}.inclusionProof"
DAY = timedelta(days=1)

_ASK = """
async ([roots, asked]) => {
    const { verifyProvenance } = await import("/policy.js");
    const told = [];
    for (const [bundle, place, demands] of asked) {
        try {
            const options = { ...demands, trustedRoot: attest.bytesOf(roots[place]) };
            told.push(await verifyProvenance(attest.bytesOf(bundle), options));
        } catch (error) { told.push({ code: error.code ?? `${error.stack}` }); }
    }
    return JSON.stringify(told);
}
"""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One question to both verifiers."""

    bundle: bytes
    root: bytes = field(default_factory=lambda: json.dumps(ROOT).encode())
    subject: bytes = SUBJECT
    identity: str = IDENTITY
    issuer: str = ISSUER


def case(bundle: Json | bytes, root: Json | bytes | None = None, **demands: Any) -> Case:  # noqa: ANN401  any demand
    data = bundle if isinstance(bundle, bytes) else json.dumps(bundle).encode()
    given = ROOT if root is None else root
    trusted = given if isinstance(given, bytes) else json.dumps(given).encode()
    return Case(bundle=data, root=trusted, **demands)


def told(found: VerifiedProvenance) -> Json:
    stated, entry = found.provenance, found.entry
    optional = {"repository": stated.repository, "release": stated.release, "commit": stated.commit}
    return {
        "subject": stated.subject.hex(),
        "name": stated.name,
        "builder": stated.builder,
        "identity": found.identity,
        "issuer": found.issuer,
        "log": entry.log.hex(),
        "index": entry.index,
        "time": int(entry.time.timestamp() * 1000),
    } | {name: value for name, value in optional.items() if value is not None}


def in_python(asked: Case) -> Json:
    try:
        return told(
            verify_provenance(
                asked.bundle,
                subject=asked.subject,
                trusted_root=asked.root,
                identity=asked.identity,
                issuer=asked.issuer,
            )
        )
    except AttestError as error:
        return {"code": error.code}


def in_page(page: Verifier, cases: Sequence[Case]) -> list[Json]:
    roots = list({one.root for one in cases})
    asked = [
        (
            base64.b64encode(one.bundle).decode(),
            roots.index(one.root),
            {"subjects": [one.subject.hex()], "identity": one.identity, "issuer": one.issuer},
        )
        for one in cases
    ]
    answers: str = page.page.evaluate(_ASK, [[base64.b64encode(one).decode() for one in roots], asked])
    return cast("list[Json]", json.loads(answers))


def compare(page: Verifier, cases: Sequence[Case]) -> list[str]:
    """Ask both, and return the codes; an empty one is that of a bundle that holds."""
    expected = [in_python(one) for one in cases]
    found = in_page(page, cases)
    assert [(i, a, b) for i, (a, b) in enumerate(zip(expected, found, strict=True)) if a != b][:5] == []
    return [one.get("code", "") for one in expected]


def codes(page: Verifier, *cases: Case) -> set[str]:
    return set(compare(page, cases))


def test_bundles_that_hold_give_the_same(in_browser: Verifier) -> None:
    statements = [statement_1(), statement_0_2(), statement_0_2(_type="https://in-toto.io/Statement/v0.1")]
    held = [case(MADE.bundle(one, media_type=kind)) for one in statements for kind in (BUNDLE_0_2, BUNDLE["mediaType"])]
    stamps = {"rfc3161Timestamps": [{"signedTimestamp": text64(b"0\0")}]}
    more = [
        case(changed(BUNDLE, f"{MATERIAL}.timestampVerificationData", stamps)),
        case(changed(BUNDLE, "mediaType", "application/vnd.dev.sigstore.bundle+json;version=0.3")),
        case(json.dumps(BUNDLE, indent=3, ensure_ascii=False).encode()),
        case(BUNDLE, changed(ROOT, "tlogs.0.publicKey.validFor.start", "2026-01-01T01:00:00.5+01:00")),
        case(BUNDLE, MADE.trusted_root(ca=period(LOGGED, LOGGED), ct=period(LOGGED), rekor=period(LOGGED, LOGGED))),
        case(BUNDLE, ROOT | {"tlogs": [*MadeSigstore().trusted_root()["tlogs"], *ROOT["tlogs"]]}),
        case(BUNDLE, ROOT | {"timestampAuthorities": ROOT["certificateAuthorities"]}),
    ]
    assert codes(in_browser, *held, *more) == {""}


def test_a_recorded_bundle_is_refused_for_its_predicate_alone(in_browser: Verifier, vectors_dir: Path) -> None:
    cases: list[Case] = []
    for name, identity in RECORDED.items():
        bundle = bundle_in(json.loads((vectors_dir / "providers" / name / "code-attestation.json").read_bytes()))
        cases.append(case(bundle, public_root(), identity=identity, issuer=PUBLIC_ISSUER))
        cases.append(case(bundle, public_root(), identity="other", issuer=PUBLIC_ISSUER))
        cases.append(case(bundle, public_root(), identity=identity, issuer="other"))
        cases.append(case(bundle, ROOT, identity=identity, issuer=PUBLIC_ISSUER))
    expected = [
        "provenance-unsupported",
        "provenance-identity-mismatch",
        "provenance-issuer-mismatch",
        "provenance-not-verified",
    ]
    assert [sorted(compare(in_browser, cases[at : at + 3])) for at in (0, 4)] == [sorted(expected[:3])] * 2
    # Material of a later year was not valid when these were logged.
    assert codes(in_browser, cases[3], cases[7]) <= {"provenance-not-verified", "provenance-root-not-valid"}


def places(value: object, path: str = "") -> Iterable[str]:
    """The paths of all members and list entries of a document."""
    inner: Iterable[tuple[object, object]] = ()
    if isinstance(value, dict):
        inner = cast("dict[str, object]", value).items()
    elif isinstance(value, list):
        inner = enumerate(cast("list[object]", value))
    for name, one in inner:
        yield f"{path}{name}"
        yield from places(one, f"{path}{name}.")


@pytest.mark.parametrize("value", [..., None, 7, "", "x", [], {}, True, "QQ==", "QR==", "-1", "18446744073709551616"])
def test_a_member_that_is_missing_or_another_is_refused_alike(in_browser: Verifier, value: object) -> None:
    bundles = [case(changed(BUNDLE, path, value)) for path in places(BUNDLE)]
    roots = [case(BUNDLE, changed(ROOT, path, value)) for path in places(ROOT)]
    found = codes(in_browser, *bundles, *roots)
    assert {"provenance-malformed", "provenance-root-invalid"} <= found


@pytest.mark.parametrize("older", [False, True], ids=["0.3", "0.2"])
def test_a_bundle_with_more_members_or_parts_is_refused_alike(in_browser: Verifier, older: bool) -> None:
    bundle = MADE.bundle(certificate=CERTIFICATE, media_type=BUNDLE_0_2) if older else BUNDLE
    raw = {"rawBytes": text64(CERTIFICATE.public_bytes(Encoding.DER))}
    additions: dict[str, object] = {
        "more": 1,
        "toString": "x",
        "__proto__": {},
        f"{MATERIAL}.publicKey": {"hint": "x"},
        f"{MATERIAL}.certificate": raw,
        f"{MATERIAL}.x509CertificateChain": {"certificates": [raw]},
        f"{MATERIAL}.x509CertificateChain.certificates": [raw, raw],
        "messageSignature": {"signature": text64(b"x")},
        f"{MATERIAL}.tlogEntries": [bundle[MATERIAL]["tlogEntries"][0]] * 2,
        "dsseEnvelope.signatures.0.keyid": "a key",
        "dsseEnvelope.signatures": bundle["dsseEnvelope"]["signatures"] * 2,
        "mediaType": BUNDLE_0_1,
    }
    cases = [
        case(changed(bundle, path, value)) for path, value in additions.items() if older or "Chain.cert" not in path
    ]
    assert codes(in_browser, *cases) == {"provenance-malformed", ""} | ({"provenance-unsupported"} if older else set())


def test_a_second_spelling_is_refused_alike(in_browser: Verifier) -> None:
    cases = [case(changed(BUNDLE, path, value)) for path, value in SECOND_SPELLINGS]
    assert codes(in_browser, *cases) == {"provenance-malformed"}
    envelope = BUNDLE[MATERIAL]["tlogEntries"][0]["inclusionProof"]["checkpoint"]["envelope"]
    texts = [
        envelope[:-1],
        envelope + "x",
        envelope + "\n",
        "\n" + envelope,
        envelope[:-1] + "!!!!\n",
        envelope.replace("\u2014", "-"),
        envelope.replace("\n5\n", "\n05\n"),
        envelope.replace("\n5\n", "\n5\n\n"),
        envelope + f"\u2014 witness.invalid {text64(b'abcdefgh')}\n",
        envelope + f"\u2014 witness.invalid {text64(b'abcd')}\n",
        envelope + f"\u2014 witn\u00e9ss.invalid {text64(b'abcdefgh')}\n",
    ]
    held = compare(in_browser, [case(changed(BUNDLE, f"{PROOF}.checkpoint.envelope", text)) for text in texts])
    assert [text for text, code in zip(texts, held, strict=True) if not code] == [texts[8]]


def test_bytes_that_are_no_bundle_are_refused_alike(in_browser: Verifier) -> None:
    data = json.dumps(BUNDLE).encode()
    given = [
        b"",
        b"\xff",
        b"[" * 500,
        b"[]",
        b"7",
        b"{}",
        b"null",
        b'{"a":' * 65 + b"1" + b"}" * 65,
        b"[" + b"1," * 20_001,
    ]
    cuts = [data[:size] for size in range(0, len(data), 501)]
    cases = [case(one) for one in (*given, *cuts, twice(BUNDLE, "mediaType"), b"\xef\xbb\xbf" + data)]
    assert codes(in_browser, *cases) == {"json-invalid", "provenance-malformed"}
    roots = [case(BUNDLE, one) for one in (*given, twice(ROOT, "tlogs"))]
    assert codes(in_browser, *roots) == {"provenance-root-invalid"}


def test_sizes_are_bounded_alike(in_browser: Verifier) -> None:
    bundle, root = (json.dumps(one).encode() for one in (BUNDLE, ROOT))
    most = 1 << 20
    assert codes(in_browser, case(bundle.ljust(most + 1))) == {"provenance-malformed"}
    assert codes(in_browser, case(bundle, root.ljust(most + 1))) == {"provenance-root-invalid"}
    assert codes(in_browser, case(bundle.ljust(most), root.ljust(most))) == {""}


def test_certificates_that_do_not_fit_are_refused_alike(in_browser: Verifier) -> None:
    wrong = [
        MADE.certificate(sct=False),
        MadeSigstore(ca=MADE.ca).certificate(public=MADE.signer.public_key()),
        MadeSigstore(ct=MADE.ct).certificate(public=MADE.signer.public_key()),
        MADE.certificate(usage=ExtendedKeyUsageOID.SERVER_AUTH),
        MADE.certificate(public=new_key().public_key()),
        MADE.certificate(public=rsa.generate_private_key(65537, 2048).public_key()),
        MADE.certificate(begin=LOGGED + timedelta(seconds=1)),
        MADE.certificate(begin=LOGGED - timedelta(minutes=10, seconds=1)),
        MADE.root_certificate(),
    ]
    cases = [
        case(MADE.bundle(certificate=one, media_type=kind))
        for one in wrong
        for kind in (BUNDLE_0_2, BUNDLE["mediaType"])
    ]
    assert codes(in_browser, *cases) == {"provenance-not-verified"}
    first, last = LOGGED, LOGGED - timedelta(minutes=10)
    assert codes(
        in_browser, *(case(MADE.bundle(certificate=MADE.certificate(begin=one))) for one in (first, last))
    ) == {""}


def test_another_signer_is_refused_alike(in_browser: Verifier) -> None:
    bare = MADE.bundle(certificate=MADE.certificate(issuer=None))
    mail = MADE.bundle(certificate=MADE.certificate(identity=None))
    expected = {
        "provenance-identity-mismatch": [
            *(case(BUNDLE, identity=one) for one in (IDENTITY[:-1], f"{IDENTITY}.1", IDENTITY.upper())),
            case(mail),
        ],
        "provenance-issuer-mismatch": [*(case(BUNDLE, issuer=one) for one in (ISSUER[:-1], f"{ISSUER}/x")), case(bare)],
        "provenance-signer-empty": [case(BUNDLE, identity=""), case(BUNDLE, issuer="")],
        "provenance-subject-mismatch": [case(BUNDLE, subject=bytes(32))],
        "": [case(mail, identity="x@builder.invalid")],
    }
    for code, cases in expected.items():
        assert codes(in_browser, *cases) == {code}


def test_trust_material_counts_at_the_time_of_the_log_alike(in_browser: Verifier) -> None:
    later = [period(end=LOGGED - DAY), period(LOGGED + DAY)]
    gone = [case(BUNDLE, MADE.trusted_root(**{name: one})) for name in ("ca", "ct", "rekor") for one in later]
    assert codes(in_browser, *gone) == {"provenance-root-not-valid"}
    other = MadeSigstore().trusted_root()
    wrong = [case(BUNDLE, other)]
    for name, path in (("rekor", "tlogs"), ("ct", "ctlogs"), ("ca", "certificateAuthorities")):
        ended = MADE.trusted_root(**{name: later[0]})
        wrong.append(case(BUNDLE, ended | {path: [*ended[path], *other[path]]}))
        wrong.append(case(BUNDLE, ROOT | {path: other[path]}))
    assert codes(in_browser, *wrong) == {"provenance-not-verified"}


KINDS = (
    "PKIX_ECDSA_P256_SHA_256",
    "PKIX_ECDSA_P384_SHA_384",
    "PKIX_ED25519",
    "PKIX_RSA_PKCS1V15_2048_SHA256",
    "ML_DSA_65",
)


def test_keys_of_other_kinds_in_a_trusted_root_are_left_out_alike(in_browser: Verifier) -> None:
    public: list[Any] = [
        ec.generate_private_key(ec.SECP384R1()).public_key(),
        ed25519.Ed25519PrivateKey.generate().public_key(),
        rsa.generate_private_key(65537, 2048).public_key(),
    ]
    raw = [text64(one.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)) for one in public]
    keys = [{"rawBytes": one, "keyDetails": kind} for one in (*raw, text64(b"no key")) for kind in KINDS]
    own = [{**ROOT["tlogs"][0]["publicKey"], "keyDetails": kind} for kind in KINDS]
    lone = [case(BUNDLE, changed(ROOT, "tlogs.0.publicKey", one)) for one in (*keys, *own)]
    assert codes(in_browser, *lone) == {"", "provenance-not-verified"}
    beside = [
        case(BUNDLE, ROOT | {path: [{**ROOT[path][0], "publicKey": one}, *ROOT[path]]})
        for one in keys
        for path in ("tlogs", "ctlogs")
    ]
    assert codes(in_browser, *beside) == {""}


@pytest.mark.parametrize(
    "make", [lambda key: key, lambda key: ec.derive_private_key(7, ec.SECP384R1())], ids=["P-256", "P-384"]
)
def test_logs_with_keys_of_every_curve_hold_alike(in_browser: Verifier, make: Any) -> None:  # noqa: ANN401  any key
    made = MadeSigstore(signer=make(MADE.signer))
    assert codes(in_browser, case(made.bundle(), made.trusted_root())) == {""}


def test_statements_are_read_alike(in_browser: Verifier) -> None:
    definition = "predicate.buildDefinition"
    moved = changed(statement_1(), f"{definition}.externalParameters.workflow.repository", "https://other.invalid/x")
    bare = changed(statement_1(), f"{definition}.externalParameters", {})
    uris = ["git+https://a.invalid/b@c@d", "git+", "git+@x", "https://a.invalid", "git+https://a.invalid\x1b[31m", 7]
    made: list[Json | bytes] = [
        moved,
        bare,
        changed(bare, f"{definition}.resolvedDependencies", ...),
        changed(statement_0_2(), "predicate.invocation", ...),
        *(changed(bare, f"{definition}.resolvedDependencies.0.uri", uri) for uri in uris),
        *(changed(statement_0_2(), "predicate.invocation.configSource.uri", uri) for uri in uris),
        statement_1(_type="https://in-toto.io/Statement/v2"),
        statement_1(predicateType="https://slsa.dev/provenance/v0.1"),
        statement_1(subject=statement_1()["subject"] * 2),
        changed(statement_1(), "subject.0.digest.sha256", SUBJECT.hex().upper()),
        b"no JSON",
        b"[" + b"1," * 20_001 + b"1]",
        json.dumps(statement_1()).replace('"predicate"', '"a\\u00e9":"\\ud83d\\ude00","predicate"').encode(),
        *(changed(statement_1(), path, ...) for path in places(statement_1())),
        *(
            changed(statement_1(), "predicate.runDetails.builder.id", text)
            for text in ("x" * 2048, "x" * 2049, "\U0001f600" * 2048, "a b", "a\u00a0b", "two\nlines", "\u200b", "")
        ),
    ]
    cases = [case(MADE.bundle(one, certificate=CERTIFICATE)) for one in made]
    known = {"", "provenance-unsupported", "provenance-statement-invalid", "json-invalid"}
    assert codes(in_browser, *cases) == known
    other = case(MADE.bundle(payload_type="text/plain"))
    assert codes(in_browser, other) == {"provenance-unsupported"}


def flipped(data: bytes, at: int, bit: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]


@pytest.mark.parametrize("older", [False, True], ids=["0.3", "0.2"])
def test_a_flipped_bit_of_a_bundle_is_refused_alike(in_browser: Verifier, older: bool) -> None:
    made = MADE.bundle(certificate=CERTIFICATE, media_type=BUNDLE_0_2) if older else BUNDLE
    data = json.dumps(made).encode()
    # Some thousand bits, spread over all bytes and places in them.
    places_of_bits = range(older, len(data), 5)
    cases = [case(flipped(data, at, (at * 5 + at // 8 + 3 * older) % 8)) for at in places_of_bits]
    found = compare(in_browser, cases)
    # All that may change: a blank between two members, and the name before a signature, which is a comment.
    name = data.index(b"rekor.invalid", data.index(b"u2014"))
    held = {at for at, code in zip(places_of_bits, found, strict=True) if not code}
    assert {at for at in held if data[at : at + 1] != b" "} <= set(range(name, name + len(b"rekor.invalid")))
    assert set(found) >= {"json-invalid", "provenance-malformed", "provenance-not-verified"}


SIGNED = (
    f"{MATERIAL}.certificate.rawBytes",
    f"{ENTRY}.inclusionPromise.signedEntryTimestamp",
    f"{ENTRY}.logId.keyId",
    f"{PROOF}.rootHash",
    f"{PROOF}.hashes.0",
    "dsseEnvelope.signatures.0.sig",
)


@pytest.mark.parametrize("path", SIGNED)
def test_every_bit_of_what_is_signed_counts_alike(in_browser: Verifier, path: str) -> None:
    value: Any = BUNDLE
    for step in path.split("."):
        value = value[int(step) if step.isdigit() else step]
    data = base64.b64decode(value)
    # A certificate has thousands of bits: one of each byte, by turns.
    bits = [(at, bit) for at in range(len(data)) for bit in (range(8) if len(data) < 200 else (at % 8,))]
    cases = [case(changed(BUNDLE, path, text64(flipped(data, *one)))) for one in bits]
    found = compare(in_browser, cases)
    assert set(found) <= {"provenance-not-verified", "provenance-malformed"}


def test_the_time_of_the_log_has_bounds_alike(in_browser: Verifier) -> None:
    times = ["0", "1", str(253402300799), str(253402300800), str(1 << 63), str((1 << 64) - 1)]
    found = compare(in_browser, [case(changed(BUNDLE, f"{ENTRY}.integratedTime", one)) for one in times])
    assert found[0] == "provenance-unsupported"
    assert found[3:] == ["provenance-malformed"] * 3
    indexes = [case(changed(BUNDLE, f"{ENTRY}.logIndex", str(one))) for one in (0, 2**53, 2**64 - 1)]
    assert codes(in_browser, *indexes) == {"provenance-not-verified"}
