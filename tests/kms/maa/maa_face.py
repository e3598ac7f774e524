"""A verifier in the shape of Microsoft Azure Attestation, and what tests send to it."""

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from starlette.testclient import TestClient

from attest_simulator import SimulatedGuest
from attest_simulator.intel.certificates import pem_text
from kms.api.app import create_app
from tests.kms.support import AT, GUEST, Harness, policy_text
from tests.results.services import rsa_key

ISSUER = "https://verifier.example"
RULES = """
issuer = "{issuer}"
key = "token-key.pem"
certificates = "token-chain.pem"
policy = "machines.yaml"
{more}
"""
RUNTIME = json.dumps({"keys": [{"kid": "TpmEphemeralEncryptionKey", "kty": "RSA", "n": "AQAB", "e": "AQAB"}]}).encode()
INIT_TIME = b"package policy\n"
Document = dict[str, Any]  # Any: JSON that the tests look into


def b64(data: bytes, *, padded: bool = False) -> str:
    text = base64.urlsafe_b64encode(data).decode()
    return text if padded else text.rstrip("=")


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


@cache
def chain_of(number: int = 0) -> tuple[x509.Certificate, ...]:
    """Certificate of the key that signs tokens, and its issuer's."""
    root = ec.generate_private_key(ec.SECP256R1())

    def certificate(name: str, key: rsa.RSAPublicKey | ec.EllipticCurvePublicKey) -> x509.Certificate:
        builder = x509.CertificateBuilder(
            issuer_name=_name("root"),
            subject_name=_name(name),
            public_key=key,
            serial_number=x509.random_serial_number(),
            not_valid_before=AT - timedelta(days=1),
            not_valid_after=AT + timedelta(days=1),
        )
        return builder.sign(root, hashes.SHA256())

    return certificate("tokens", rsa_key(number).public_key()), certificate("root", root.public_key())


def write_rules(
    folder: Path,
    *,
    more: str = "",
    issuer: str = ISSUER,
    policy: bytes | None = None,
    key: bytes | None = None,
    chain: tuple[x509.Certificate, ...] | None = None,
) -> Path:
    """Write the file of the setting ``maa_file`` and the files that it names."""
    pem = rsa_key(0).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) if key is None else key
    (folder / "token-key.pem").touch(mode=0o600)
    (folder / "token-key.pem").write_bytes(pem)
    certificates = chain_of() if chain is None else chain
    (folder / "token-chain.pem").write_bytes(b"".join(one.public_bytes(Encoding.PEM) for one in certificates))
    (folder / "machines.yaml").write_bytes(policy_text() if policy is None else policy)
    path = folder / "maa.toml"
    path.write_text(RULES.format(issuer=issuer, more=more))
    return path


def chain_pem(guest: SimulatedGuest) -> bytes:
    return pem_text(guest.chip.certificates()).encode()


def report_data(runtime: bytes) -> bytes:
    return sha256(runtime).digest() + bytes(32)


def snp_body(
    runtime: bytes = RUNTIME,
    *,
    guest: SimulatedGuest = GUEST,
    committed: bytes | None = None,
    override: Mapping[str, int | bytes] | None = None,
    kind: str = "JSON",
    padded: bool = False,
    **more: object,
) -> Document:
    """A request as the container sidecar writes it."""
    report = guest.report(report_data(runtime) if committed is None else committed, override=override)
    inner = {"SnpReport": b64(report, padded=padded), "VcekCertChain": b64(chain_pem(guest), padded=padded)}
    return {
        "report": b64(json.dumps(inner).encode(), padded=padded),
        "runtimeData": {"data": b64(runtime, padded=padded), "dataType": kind},
        **more,
    }


@dataclass
class MaaFace:
    """The service and a client of its protocol."""

    harness: Harness
    http: TestClient

    def post(self, body: object, tee: str = "SevSnpVm", *, version: str | None = "2022-08-01") -> Any:  # noqa: ANN401  a response
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        query = "" if version is None else f"?api-version={version}"
        return self.http.post(f"/attest/{tee}{query}", content=content)

    def token(self, body: object, tee: str = "SevSnpVm") -> str:
        answer = self.post(body, tee)
        assert answer.status_code == 200, answer.text
        (name,) = answer.json()
        assert name == "token"
        return str(answer.json()["token"])

    def refused(self, body: object, status: int, code: str, tee: str = "SevSnpVm") -> Document:
        """Be refused in the protocol's form."""
        return refusal(self.post(body, tee), status, code)

    @property
    def attested(self) -> list[Document]:
        return [entry for entry in self.harness.entries() if entry["kind"] == "maa-attested"]


def refusal(answer: Any, status: int, code: str) -> Document:  # noqa: ANN401  a response
    """Require a refusal in the protocol's form."""
    assert answer.status_code == status, answer.text
    document: Document = answer.json()
    assert set(document) == {"error"}
    assert isinstance(document["error"]["code"], str)
    assert isinstance(document["error"]["message"], str)
    assert document["error"]["innererror"] == {"code": code}
    return document


@contextmanager
def maa_face_of(folder: Path, *, rules: Path | None = None, **changes: Any) -> Iterator[MaaFace]:  # noqa: ANN401  a setting
    """Serve the protocol from a new database."""
    harness = Harness.make(folder, maa_file=rules or write_rules(folder), **changes)
    app = create_app(harness.settings, harness.services)
    with TestClient(app, raise_server_exceptions=False, base_url="http://maa.test") as http:
        yield MaaFace(harness, http)
    harness.close()


def claims_of(token: str) -> Document:
    """The claims of a token, unverified."""
    found: Document = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    return found
