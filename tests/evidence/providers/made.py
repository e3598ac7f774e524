"""Documents of services, made of simulated machines: every family, complete and honest."""

import base64
import gzip
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from hashlib import sha256
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID

from attest.checks import Unchecked
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import Endorsements
from attest.evidence.envelope import MEDIA_PROVIDER_DOCUMENT, MEDIA_PROVIDER_KEYS, Evidence, EvidenceItem
from attest.evidence.keccak import keccak256
from attest.evidence.snp.tcb import SnpProduct
from attest.verification import ExpectedFreshness, VerifiedEvidence, verify
from attest_simulator import SimulatedChip, SimulatedGuest
from attest_simulator.intel import SimulatedEnclave, SimulatedPlatform, SimulatedTd
from attest_simulator.nvidia import SimulatedGpu
from tests.samples import AT

Document = dict[str, Any]
Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
NONCE = bytes(range(32))
UNCHECKED = tuple(Unchecked(check=name, reason="a test of documents") for name in ("rim", "revocation", "topology"))
PLATFORM = SimulatedPlatform.of()
TD = SimulatedTd(platform=PLATFORM)
ENCLAVE = SimulatedEnclave(platform=PLATFORM)
GUEST = SimulatedGuest(chip=SimulatedChip.of(SnpProduct.GENOA))
TLS_KEY = ec.derive_private_key(7, ec.SECP384R1())
ED25519 = Ed25519PrivateKey.from_private_bytes(bytes(31) + b"\1")
ADDRESS = ED25519.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
POINT = (
    ec.derive_private_key(11, ec.SECP256K1()).public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
)
ECDSA_ADDRESS = keccak256(POINT[1:])[12:]
HPKE_KEY = b"\x21" * 32


def kem_key(name: str = "instance-1") -> bytes:
    return (sha256(name.encode()).digest() * 37)[:1184]


@cache
def gpu(name: str = "gpu of a service") -> SimulatedGpu:
    return SimulatedGpu.of(name, architecture="hopper", driver="570.124.06")


@cache
def device(name: str = "gpu of a service", nonce: bytes = NONCE) -> Document:
    chosen = gpu(name)
    return {
        "arch": chosen.arch,
        "evidence": base64.b64encode(chosen.report(nonce)).decode(),
        "certificate": base64.b64encode(chosen.chain_pem).decode(),
    }


@cache
def rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


@cache
def certificate(key: Key = TLS_KEY) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "service.example")])
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(5)
        .not_valid_before(datetime(2026, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=400))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )


def pem(chosen: x509.Certificate) -> str:
    return chosen.public_bytes(Encoding.PEM).decode()


def spki_sha256(chosen: x509.Certificate) -> bytes:
    key = chosen.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return sha256(key).digest()


@cache
def quote(report_data: bytes, td: SimulatedTd | SimulatedEnclave = TD) -> bytes:
    return td.quote(report_data)


# -- dstack


def machine(
    *, td: SimulatedTd | SimulatedEnclave = TD, gpus: tuple[str, ...] = ("gpu of a service",), **more: object
) -> Document:
    """A dstack machine with an Ed25519 key, a TLS fingerprint and its GPUs; ``more`` replaces members."""
    fingerprint = spki_sha256(certificate())
    signed = quote(sha256(ADDRESS + fingerprint).digest() + NONCE, td)
    devices = [device(name) for name in gpus]
    made: Document = {
        "model_name": "sample",
        "signing_address": ADDRESS.hex(),
        "signing_algo": "ed25519",
        "signing_public_key": ADDRESS.hex(),
        "request_nonce": NONCE.hex(),
        "intel_quote": signed.hex(),
        "quote": signed.hex(),
        "tls_cert_fingerprint": fingerprint.hex(),
    }
    if devices:
        made["nvidia_payload"] = json.dumps({"nonce": NONCE.hex(), "arch": "HOPPER", "evidence_list": devices})
    return {**made, **more}


def ecdsa_machine(**more: object) -> Document:
    """A dstack machine with an ECDSA key and no fingerprint."""
    signed = quote(ECDSA_ADDRESS.ljust(32, b"\0") + NONCE)
    return {
        "signing_address": "0x" + ECDSA_ADDRESS.hex(),
        "signing_algo": "ecdsa",
        "signing_public_key": POINT[1:].hex(),
        "signing_key": POINT.hex(),
        "intel_quote": signed.hex(),
        "nvidia_payload": {"evidences": [device()]},
        **more,
    }


ACTIONS: list[Document] = [
    {"timestamp": "2026-06-01T00:00:00Z", "action": "compose_up", "file": "a.yaml", "odd": 1},
    {"action": "docker_restart", "timestamp": "2026-06-01T00:01:00Z", "container": "x"},
]


ODD_ACTIONS: list[Document] = [
    {"action": "x", "more": [1e22, 1e16, 123456789012345.5, 1e-4, 1e-5, 2.5e-7, 1.5e300, -0.0, 0.0, -1, 10**30]},
    {"action": "y", "\U0001f600": 1, "\uff00": {"\u007f\n": "\u2028\u001f"}},
]
"""Numbers and names that JSON writers write in different ways."""


def manager(
    *,
    actions: list[Document] = ACTIONS,
    by_name: bool = False,
    td: SimulatedTd | SimulatedEnclave = TD,
    nonce: bytes = NONCE,
    **more: object,
) -> Document:
    """The compose manager's attestation; by default with members in the order of the manager."""
    ordered = [
        {name: one[name] for name in ("timestamp", "action", "container") if name in one} | one for one in actions
    ]
    text = json.dumps(ordered, separators=(",", ":"), sort_keys=by_name, ensure_ascii=False)
    digest = sha256(text.encode()).digest()
    return {
        "actions": actions,
        "actions_hash": digest.hex(),
        "nonce": nonce.hex(),
        "quote": quote(digest + nonce, td).hex(),
        **more,
    }


def ohttp(**more: object) -> Document:
    config = bytes.fromhex("010020") + b"\x31" * 32
    return {
        "signing_algo": "ed25519",
        "signing_key": ADDRESS.hex(),
        "key_config": config.hex(),
        "signature": ED25519.sign(config).hex(),
        **more,
    }


def gateway(*models: Document, **more: object) -> Document:
    """A gateway without GPUs, and machines behind it."""
    own = machine(td=SimulatedTd(platform=PLATFORM, mr_owner=b"\1" * 48), gpus=())
    return {
        "gateway_attestation": own,
        "model_attestations": list(models) or [machine()],
        "tls_certificate": pem(certificate()),
        **more,
    }


# -- Chutes


def instance(name: str = "instance-1", **more: object) -> Document:
    """One entry of Chutes' evidence."""
    committed = sha256(NONCE.hex().encode() + base64.b64encode(kem_key(name))).digest()
    chosen = certificate(rsa_key())
    return {
        "instance_id": name,
        "quote": base64.b64encode(quote(committed + spki_sha256(chosen))).decode(),
        "gpu_evidence": [device(f"gpu of {name}", committed)],
        "certificate": base64.b64encode(chosen.public_bytes(Encoding.DER)).decode(),
        **more,
    }


def chutes(*entries: Document) -> Document:
    return {"evidence": list(entries) or [instance()], "failed_instance_ids": []}


def instances(*names: str, key: bytes | None = None) -> Document:
    """The keys of these instances, each its own, or one for all."""
    keys = {name: base64.b64encode(kem_key(name) if key is None else key).decode() for name in names}
    rows = [{"instance_id": name, "e2e_pubkey": keys[name]} for name in names]
    return {"instances": rows, "nonce_expires_in": 60}


def listed(*entries: Document) -> Document:
    """The list of a reseller."""
    return {"attestation_type": "chutes", "nonce": NONCE.hex(), "all_attestations": list(entries) or [entry()]}


def entry(name: str = "instance-1", **more: object) -> Document:
    whole = instance(name)
    return {
        "instance_id": name,
        "nonce": NONCE.hex(),
        "e2e_pubkey": base64.b64encode(kem_key(name)).decode(),
        "intel_quote": whole["quote"],
        "gpu_evidence": whole["gpu_evidence"],
        **more,
    }


# -- Tinfoil


def tinfoil(
    *, gpus: bool = True, switches: bool = False, snp: bool = False, key: Key = TLS_KEY, **more: object
) -> Document:
    """A document of version 3, not signed yet; ``tinfoil_bytes`` signs it."""
    chosen = certificate(key)
    stated = {"tls_key_fp": spki_sha256(chosen).hex(), "hpke_key": HPKE_KEY.hex(), "nonce": NONCE.hex()}
    document: Document = {"format": "https://tinfoil.sh/predicate/attestation/v3", "report_data": stated}
    for member, there in (("gpu", gpus), ("nvswitch", switches)):
        if there:
            document[member] = {"evidences": [device(f"tinfoil {member}")]}
            text = json.dumps(document[member], separators=(",", ":"))
            stated["gpu_evidence_hash" if member == "gpu" else "nvswitch_evidence_hash"] = sha256(
                text.encode()
            ).hexdigest()
    committed = sha256(b"".join(bytes.fromhex(value) for value in stated.values())).digest() + bytes(32)
    report = GUEST.report(committed) if snp else quote(committed)
    document["cpu"] = {"platform": "sev-snp" if snp else "tdx", "report": base64.b64encode(report).decode()}
    document["certificate"] = pem(chosen)
    return {**document, "signature": "", **more}


def tinfoil_bytes(document: Document, key: Key = TLS_KEY) -> bytes:
    """Sign a document."""
    text = json.dumps(document, separators=(",", ":"))
    if isinstance(key, rsa.RSAPrivateKey):
        signature = key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256())
    else:
        signature = key.sign(text.encode(), ec.ECDSA(hashes.SHA256()))
    return text.replace('"signature":""', f'"signature":"{base64.b64encode(signature).decode()}"').encode() + b"\n"


def tinfoil_v2(report: bytes | None = None, *, form: str = "tdx-guest", **more: object) -> Document:
    body = quote(b"\1" * 32 + b"\2" * 32) if report is None else report
    return {
        "format": f"https://tinfoil.sh/predicate/{form}/v2",
        "body": base64.b64encode(gzip.compress(body, mtime=0)).decode(),
        **more,
    }


# -- verification


def jsons(document: object) -> bytes:
    return json.dumps(document).encode()


def evidence(document: object, keys: object = None) -> Evidence:
    """A document, given as bytes or as a value, and perhaps the keys beside it."""
    data = document if isinstance(document, bytes) else jsons(document)
    items = [EvidenceItem(name="document", media_type=MEDIA_PROVIDER_DOCUMENT, value=data)]
    if keys is not None:
        items.append(EvidenceItem(name="keys", media_type=MEDIA_PROVIDER_KEYS, value=jsons(keys)))
    return Evidence(items=tuple(items))


@cache
def endorsements() -> Endorsements:
    intel = PLATFORM.collateral("tdx", at=AT).endorsements().merged(PLATFORM.collateral("sgx", at=AT).endorsements())
    return intel.merged(GUEST.chip.endorsements(at=AT))


def verified(
    document: object, keys: object = None, *, nonce: bytes | None = NONCE, pool: Endorsements | None = None
) -> VerifiedEvidence:
    return verify(
        evidence(document, keys),
        endorsements=endorsements() if pool is None else pool,
        anchors=TrustAnchors.simulation(),
        at=AT,
        expected=None if nonce is None else ExpectedFreshness(nonce=nonce),
        unchecked=UNCHECKED,
    )


HONEST: dict[str, Callable[[], tuple[object, object]]] = {
    "dstack, ed25519": lambda: (machine(ohttp_attestation=ohttp(), compose_manager_attestation=manager()), None),
    "dstack, ecdsa": lambda: (ecdsa_machine(), None),
    "gateway": lambda: (gateway(), None),
    "Chutes": lambda: (chutes(instance("a"), instance("b")), instances("a", "b")),
    "list of Chutes": lambda: (listed(entry("a"), entry("b")), None),
    "tinfoil v3 on TDX": lambda: (tinfoil_bytes(tinfoil()), None),
    "tinfoil v3 on SEV-SNP": lambda: (tinfoil_bytes(tinfoil(gpus=False, snp=True)), None),
}
"""Every family, with a nonce."""
