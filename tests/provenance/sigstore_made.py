"""An instance of Sigstore for tests: certificate authority, certificate log, signature log, under keys made here."""

import base64
import hashlib
import json
import struct
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import rfc8785
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

from tests.key_usages import key_usage

NOBODY = "tests of attest: no Sigstore instance"
IDENTITY = "https://builder.invalid/acme/image/.github/workflows/build.yml@refs/tags/v1.2"
ISSUER = "https://issuer.invalid"
BUILDER = "https://builder.invalid/hosted"
REPOSITORY = "https://builder.invalid/acme/image"
COMMIT = "c0" * 20
DOCUMENT = b'{"reference": "values"}'
SUBJECT = hashlib.sha256(DOCUMENT).digest()
LOGGED = datetime(2026, 6, 1, 12, 0, 0, tzinfo=UTC)
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
STATEMENT_TYPE = "application/vnd.in-toto+json"
SLSA_1 = "https://slsa.dev/provenance/v1"
SLSA_0_2 = "https://slsa.dev/provenance/v0.2"
ROOT_TYPE = "application/vnd.dev.sigstore.trustedroot+json;version=0.1"
BUNDLE_0_3 = "application/vnd.dev.sigstore.bundle.v0.3+json"
BUNDLE_0_2 = "application/vnd.dev.sigstore.bundle+json;version=0.2"
BUNDLE_0_1 = "application/vnd.dev.sigstore.bundle+json;version=0.1"
_SCT_LIST = ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")
_ISSUER_V2 = ObjectIdentifier("1.3.6.1.4.1.57264.1.8")
_OTHER_LEAVES = [b"first", b"second", b"third", b"fifth"]
_PLACE = 3
_FIRST_INDEX = 7000

Json = dict[str, Any]  # any JSON


def statement_1(**changes: Any) -> Json:  # noqa: ANN401  any JSON
    """Make a statement with SLSA v1, as a workflow on a hosted builder gives it."""
    dependency = {"uri": f"git+{REPOSITORY}@refs/tags/v1.2", "digest": {"gitCommit": COMMIT}}
    workflow = {"ref": "refs/tags/v1.2", "repository": REPOSITORY, "path": ".github/workflows/build.yml"}
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "fleet.json", "digest": {"sha256": SUBJECT.hex()}}],
        "predicateType": SLSA_1,
        "predicate": {
            "buildDefinition": {
                "buildType": "https://builder.invalid/type",
                "externalParameters": {"workflow": workflow},
                "resolvedDependencies": [dependency],
            },
            "runDetails": {"builder": {"id": BUILDER}},
        },
    } | changes


def statement_0_2(**changes: Any) -> Json:  # noqa: ANN401  any JSON
    """Make a statement with SLSA v0.2."""
    source = {"uri": f"git+{REPOSITORY}@refs/tags/v1.2", "digest": {"sha1": COMMIT}, "entryPoint": "build.yml"}
    predicate = {"builder": {"id": BUILDER}, "buildType": "x", "invocation": {"configSource": source}}
    return statement_1(predicateType=SLSA_0_2, predicate=predicate) | changes


def text64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def spki(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def sign(key: ec.EllipticCurvePrivateKey, data: bytes) -> bytes:
    return key.sign(data, ec.ECDSA(SHA256()))


def leaf_hash(leaf: bytes) -> bytes:
    return hashlib.sha256(b"\0" + leaf).digest()


def tree_hash(leaves: Sequence[bytes]) -> bytes:
    if len(leaves) == 1:
        return leaf_hash(leaves[0])
    split = 1 << (len(leaves) - 1).bit_length() - 1
    return hashlib.sha256(b"\1" + tree_hash(leaves[:split]) + tree_hash(leaves[split:])).digest()


def inclusion_path(leaves: Sequence[bytes], index: int) -> list[bytes]:
    if len(leaves) == 1:
        return []
    split = 1 << (len(leaves) - 1).bit_length() - 1
    if index < split:
        return [*inclusion_path(leaves[:split], index), tree_hash(leaves[split:])]
    return [*inclusion_path(leaves[split:], index - split), tree_hash(leaves[:split])]


def pae(media_type: str, payload: bytes) -> bytes:
    return f"DSSEv1 {len(media_type)} {media_type} {len(payload)} ".encode() + payload


def period(begin: datetime = BEGIN, end: datetime | None = None) -> Json:
    made = {"start": begin.isoformat().replace("+00:00", "Z")}
    return made if end is None else made | {"end": end.isoformat().replace("+00:00", "Z")}


@dataclass(frozen=True)
class MadeSigstore:
    """The keys of an instance, and what it would publish and sign."""

    ca: ec.EllipticCurvePrivateKey = field(default_factory=new_key)
    ct: ec.EllipticCurvePrivateKey = field(default_factory=new_key)
    rekor: ec.EllipticCurvePrivateKey = field(default_factory=new_key)
    signer: ec.EllipticCurvePrivateKey = field(default_factory=new_key)

    @property
    def name(self) -> x509.Name:
        return x509.Name(
            [x509.NameAttribute(NameOID.ORGANIZATION_NAME, NOBODY), x509.NameAttribute(NameOID.COMMON_NAME, NOBODY)]
        )

    def root_certificate(self) -> x509.Certificate:
        usage = key_usage("key_cert_sign", "crl_sign")
        public = self.ca.public_key()
        return (
            x509.CertificateBuilder()
            .subject_name(self.name)
            .issuer_name(self.name)
            .public_key(public)
            .serial_number(1)
            .not_valid_before(BEGIN)
            .not_valid_after(BEGIN + timedelta(days=3650))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .sign(self.ca, SHA256())
        )

    def trusted_root(self, **periods: Json) -> Json:
        """Make the trusted root; ``ca``, ``ct`` and ``rekor`` change how long the material is valid."""

        def log(key: ec.EllipticCurvePrivateKey, name: str) -> Json:
            details = {"keyDetails": "PKIX_ECDSA_P256_SHA_256", "validFor": periods.get(name, period())}
            return {
                "baseUrl": f"https://{name}.invalid",
                "hashAlgorithm": "SHA2_256",
                "publicKey": {"rawBytes": text64(spki(key))} | details,
                "logId": {"keyId": text64(hashlib.sha256(spki(key)).digest())},
            }

        certificate = text64(self.root_certificate().public_bytes(Encoding.DER))
        authority = {
            "subject": {"organization": NOBODY, "commonName": NOBODY},
            "uri": "https://ca.invalid",
            "certChain": {"certificates": [{"rawBytes": certificate}]},
            "validFor": periods.get("ca", period()),
        }
        return {
            "mediaType": ROOT_TYPE,
            "tlogs": [log(self.rekor, "rekor")],
            "certificateAuthorities": [authority],
            "ctlogs": [log(self.ct, "ct")],
        }

    def certificate(
        self,
        *,
        identity: str | None = IDENTITY,
        issuer: str | None = ISSUER,
        begin: datetime = LOGGED - timedelta(minutes=1),
        sct: bool = True,
        usage: ObjectIdentifier = ExtendedKeyUsageOID.CODE_SIGNING,
        public: Any = None,  # noqa: ANN401  any public key
    ) -> x509.Certificate:
        """Issue a certificate for ten minutes, with the signed timestamp of the certificate log in it."""
        signing = key_usage("digital_signature")
        key_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.ca.public_key())
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([]))
            .issuer_name(self.name)
            .public_key(public or self.signer.public_key())
            .serial_number(2)
            .not_valid_before(begin)
            .not_valid_after(begin + timedelta(minutes=10))
            .add_extension(signing, critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(key_id, critical=False)
        )
        name = x509.UniformResourceIdentifier(identity) if identity else x509.RFC822Name("x@builder.invalid")
        builder = builder.add_extension(x509.SubjectAlternativeName([name]), critical=True)
        if issuer is not None:
            text = issuer.encode()
            value = x509.UnrecognizedExtension(_ISSUER_V2, bytes([0x0C, len(text)]) + text)
            builder = builder.add_extension(value, critical=False)
        bare = builder.sign(self.ca, SHA256())
        if not sct:
            return bare
        listed = self._sct_list(bare.tbs_certificate_bytes, begin)
        return builder.add_extension(x509.UnrecognizedExtension(_SCT_LIST, listed), critical=False).sign(
            self.ca, SHA256()
        )

    def _sct_list(self, tbs: bytes, time: datetime) -> bytes:
        stamp = struct.pack("!Q", int(time.timestamp()) * 1000)
        entry = hashlib.sha256(spki(self.ca)).digest() + len(tbs).to_bytes(3, "big") + tbs
        signature = sign(self.ct, b"\0\0" + stamp + b"\0\1" + entry + b"\0\0")
        log = hashlib.sha256(spki(self.ct)).digest()
        sct = b"\0" + log + stamp + b"\0\0" + b"\4\3" + struct.pack("!H", len(signature)) + signature
        listed = struct.pack("!HH", len(sct) + 2, len(sct)) + sct
        return bytes([0x04, len(listed)]) + listed

    def bundle(
        self,
        statement: Json | bytes | None = None,
        *,
        certificate: x509.Certificate | None = None,
        media_type: str = BUNDLE_0_3,
        payload_type: str = STATEMENT_TYPE,
        time: datetime = LOGGED,
    ) -> Json:
        """Sign a statement, have it logged, and make the bundle."""
        payload = statement if isinstance(statement, bytes) else json.dumps(statement or statement_1()).encode()
        signed_by = certificate or self.certificate()
        signature = sign(self.signer, pae(payload_type, payload))
        body = log_body(payload, signature, signed_by)
        raw = {"rawBytes": text64(signed_by.public_bytes(Encoding.DER))}
        chain = {"certificate": raw} if media_type == BUNDLE_0_3 else {"x509CertificateChain": {"certificates": [raw]}}
        envelope = {
            "payload": text64(payload),
            "payloadType": payload_type,
            "signatures": [{"sig": text64(signature)}],
        }
        return {
            "mediaType": media_type,
            "verificationMaterial": {**chain, "tlogEntries": [self.log_entry(body, time)]},
            "dsseEnvelope": envelope,
        }

    def log_entry(self, body: bytes, time: datetime = LOGGED) -> Json:
        """Take a body up in the log, with promise, proof and checkpoint."""
        leaves = [*_OTHER_LEAVES[:_PLACE], body, *_OTHER_LEAVES[_PLACE:]]
        log, seconds, index = hashlib.sha256(spki(self.rekor)).digest(), int(time.timestamp()), _FIRST_INDEX + _PLACE
        promise: Json = {"body": text64(body), "integratedTime": seconds, "logID": log.hex(), "logIndex": index}
        return {
            "logIndex": str(index),
            "logId": {"keyId": text64(log)},
            "kindVersion": {"kind": "dsse", "version": "0.0.1"},
            "integratedTime": str(seconds),
            "inclusionPromise": {"signedEntryTimestamp": text64(sign(self.rekor, rfc8785.dumps(promise)))},
            "inclusionProof": {
                "logIndex": str(_PLACE),
                "rootHash": text64(tree_hash(leaves)),
                "treeSize": str(len(leaves)),
                "hashes": [text64(one) for one in inclusion_path(leaves, _PLACE)],
                "checkpoint": {"envelope": self.checkpoint(len(leaves), tree_hash(leaves))},
            },
            "canonicalizedBody": text64(body),
        }

    def checkpoint(self, size: int, root: bytes) -> str:
        """Sign the state of the log."""
        note = f"rekor.invalid\n{size}\n{text64(root)}\n"
        signature = hashlib.sha256(spki(self.rekor)).digest()[:4] + sign(self.rekor, note.encode())
        return f"{note}\n— rekor.invalid {text64(signature)}\n"


def log_body(payload: bytes, signature: bytes, certificate: x509.Certificate) -> bytes:
    """Write the entry of the log for an envelope."""
    verifier = text64(certificate.public_bytes(Encoding.PEM))
    digest = {"algorithm": "sha256", "value": hashlib.sha256(payload).hexdigest()}
    spec = {
        "envelopeHash": {"algorithm": "sha256", "value": "00" * 32},
        "payloadHash": digest,
        "signatures": [{"signature": text64(signature), "verifier": verifier}],
    }
    return json.dumps({"apiVersion": "0.0.1", "kind": "dsse", "spec": spec}).encode()


def changed(document: Json, path: str, value: Any) -> Json:  # noqa: ANN401  any JSON
    """Return a copy with another value at a path; without the key if the value is ``...``."""
    made = deepcopy(document)
    *before, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    place: Any = made
    for step in before:
        place = place[step]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return made
