"""An Intel in which everything can be signed: a root, its CAs, TCB Signing, lists and documents. Keys are P-256."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID

from attest.checks import Unchecked
from attest.endorsements.intel import IntelDocument, IntelDocumentKind
from attest.endorsements.pool import Endorsements
from attest.endorsements.x509 import Certificate, Crl, Issuer, parse_certificate, parse_crl
from attest.evidence.intel.collateral import TCB_SIGNING_NAME
from attest.evidence.intel.evaluation import PlatformFacts
from attest.evidence.intel.judgement import CollateralAtHand, VerifiedCollateral
from attest.evidence.intel.verify import judge_collateral, procedure_of
from attest.evidence.sgx.structure import ParsedEnclaveReport
from attest_simulator import der
from tests.evidence.intel_collateral.recorded import BLANK_QE, BLANK_TD

BEGINS = datetime(2026, 1, 1, tzinfo=UTC)
ENDS = datetime(2026, 1, 31, tzinfo=UTC)
MIDDLE = datetime(2026, 1, 15, tzinfo=UTC)
SECOND = timedelta(seconds=1)
LONG = (BEGINS - timedelta(days=900), BEGINS + timedelta(days=900))

Key = ec.EllipticCurvePrivateKey
ROOT_KEY, CA_KEY, PCK_KEY, SIGNING_KEY, OTHER_KEY = (ec.derive_private_key(2000 + i, ec.SECP256R1()) for i in range(5))
ROOT, CA, PCK = "Intel SGX Root CA", "Intel SGX PCK Platform CA", "Intel SGX PCK Certificate"

SIGNER = "dc9e2a7c6f948f17474e34a7fc43ed030f7c1563f1babddf6340c82e0e54a8c5"
MODULE = {"mrsigner": "00" * 48, "attributes": "00" * 8, "attributesMask": "FF" * 8}


def spki(key: Key) -> bytes:
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def certificate(
    subject: str,
    key: Key,
    *,
    issuer: str = ROOT,
    signer: Key = ROOT_KEY,
    serial: int = 7,
    dates: tuple[datetime, datetime] = LONG,
) -> Certificate:
    builder = (
        x509.CertificateBuilder()
        .subject_name(name(subject))
        .issuer_name(name(issuer))
        .public_key(key.public_key())
        .serial_number(serial)
        .not_valid_before(dates[0])
        .not_valid_after(dates[1])
        .add_extension(x509.BasicConstraints(ca=subject.endswith("CA"), path_length=None), critical=True)
    )
    return parse_certificate(builder.sign(signer, hashes.SHA256()).public_bytes(Encoding.DER))


def crl(
    issuer: str = ROOT,
    signer: Key = ROOT_KEY,
    *,
    dates: tuple[datetime, datetime] = (BEGINS, ENDS),
    revoked: tuple[int, ...] = (),
) -> Crl:
    builder = x509.CertificateRevocationListBuilder().issuer_name(name(issuer))
    builder = builder.last_update(dates[0]).next_update(dates[1]).add_extension(x509.CRLNumber(1), critical=False)
    for serial in revoked:
        entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(BEGINS).build()
        builder = builder.add_revoked_certificate(entry)
    return parse_crl(builder.sign(signer, hashes.SHA256()).public_bytes(Encoding.DER))


def text(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def platform_level(
    sgx: int = 5, pce: int = 11, tdx: int = 5, status: str = "UpToDate", *advisories: str, **more: object
) -> dict[str, Any]:
    tcb = {
        "sgxtcbcomponents": [{"svn": sgx, "category": "BIOS", "type": "x"}] * 2 + [{"svn": 0}] * 14,
        "pcesvn": pce,
        "tdxtcbcomponents": [{"svn": tdx}] * 3 + [{"svn": 0}] * 13,
    }
    level = {"tcb": tcb, "tcbDate": "2025-01-01T00:00:00Z", "tcbStatus": status}
    return {**level, **({"advisoryIDs": [*advisories]} if advisories else {}), **more}


def component_level(svn: int, status: str = "UpToDate", *advisories: str) -> dict[str, Any]:
    return {
        "tcb": {"isvsvn": svn},
        "tcbDate": "2025-02-02T00:00:00Z",
        "tcbStatus": status,
        "advisoryIDs": [*advisories],
    }


def tcb_info(*levels: Mapping[str, Any], **changes: object) -> dict[str, Any]:
    return {
        "id": "TDX",
        "version": 3,
        "issueDate": text(BEGINS),
        "nextUpdate": text(ENDS),
        "fmspc": "50806F000000",
        "pceId": "0000",
        "tcbType": 0,
        "tcbEvaluationDataNumber": 18,
        "tdxModule": MODULE,
        "tdxModuleIdentities": [
            {"id": "TDX_01", **MODULE, "tcbLevels": [component_level(5), component_level(2, "OutOfDate", "M-1")]},
            {"id": "tdx_0a", **MODULE, "tcbLevels": [component_level(3)]},
        ],
        "tcbLevels": [*(levels or (platform_level(),))],
        **changes,
    }


def qe_identity(**changes: object) -> dict[str, Any]:
    return {
        "id": "TD_QE",
        "version": 2,
        "issueDate": text(BEGINS),
        "nextUpdate": text(ENDS),
        "tcbEvaluationDataNumber": 17,
        "miscselect": "00000000",
        "miscselectMask": "FFFFFFFF",
        "attributes": "11000000000000000000000000000000",
        "attributesMask": "FBFFFFFFFFFFFFFF0000000000000000",
        "mrsigner": SIGNER.upper(),
        "isvprodid": 2,
        "tcbLevels": [component_level(4), component_level(2, "OutOfDate", "Q-1"), component_level(1, "Revoked")],
        **changes,
    }


def raw(members: Mapping[str, Any]) -> bytes:
    return json.dumps(members, separators=(",", ":")).encode()


def document(kind: IntelDocumentKind, members: Mapping[str, Any], *, key: Key = SIGNING_KEY) -> IntelDocument:
    body = raw(members)
    r, s = decode_dss_signature(key.sign(body, ec.ECDSA(hashes.SHA256())))
    return IntelDocument(kind=kind, body=body, signature=r.to_bytes(32, "big") + s.to_bytes(32, "big"))


def info_document(*levels: Mapping[str, Any], key: Key = SIGNING_KEY, **changes: object) -> IntelDocument:
    return document("tcb-info", tcb_info(*levels, **changes), key=key)


def qe_document(*, key: Key = SIGNING_KEY, **changes: object) -> IntelDocument:
    return document("qe-identity", qe_identity(**changes), key=key)


SIGNING = certificate(TCB_SIGNING_NAME, SIGNING_KEY, serial=30)
PLATFORM_CA = certificate(CA, CA_KEY, serial=20)
LEAF = certificate(PCK, PCK_KEY, issuer=CA, signer=CA_KEY, serial=10)
ISSUER = Issuer(name=ROOT, subject=PLATFORM_CA.issuer, spki=spki(ROOT_KEY))
ROOT_CRL = crl()
PCK_CRL = crl(CA, CA_KEY)
INFO = info_document()
IDENTITY = qe_document()

QE = replace(
    BLANK_QE,
    misc_select=0,
    attributes=bytes.fromhex("1500000000000000e700000000000000"),
    mr_signer=bytes.fromhex(SIGNER),
    isv_prod_id=2,
    isv_svn=4,
)
MODULE_FACTS = replace(
    BLANK_TD,
    tee_tcb_svn=bytes([5, 1, 5]).ljust(16, b"\0"),
    tee_tcb_svn_2=None,
    mr_signer_seam=bytes(48),
    seam_attributes=bytes(8),
)
PLATFORM = PlatformFacts(
    tee="tdx",
    fmspc=bytes.fromhex("50806f000000"),
    pce_id=bytes(2),
    component_svns=(5, 5, *[0] * 14),
    pce_svn=11,
    module=MODULE_FACTS,
)


@dataclass(frozen=True, kw_only=True)
class Made:
    """A quote's facts and the collateral at hand; everything is in order until something is replaced."""

    platform: PlatformFacts = PLATFORM
    qe: ParsedEnclaveReport = QE
    certificates: tuple[Certificate, ...] = (SIGNING,)
    crls: tuple[Crl, ...] = (ROOT_CRL, PCK_CRL)
    documents: tuple[IntelDocument, ...] = (INFO, IDENTITY)
    at: datetime = MIDDLE
    root: Issuer = ISSUER
    unchecked: tuple[Unchecked, ...] = field(default=())

    def judge(self) -> VerifiedCollateral:
        at_hand = CollateralAtHand(
            platform=self.platform,
            qe=self.qe,
            pck=LEAF,
            ca=PLATFORM_CA,
            root=self.root,
            endorsements=Endorsements(certificates=self.certificates, crls=self.crls, documents=self.documents),
            at=self.at,
        )
        return judge_collateral(procedure_of(self.platform.tee), at_hand, unchecked=self.unchecked)

    def with_module(self, **changes: object) -> "Made":
        module = replace(MODULE_FACTS, **changes)  # type: ignore[arg-type]  # the keywords of the caller
        return replace(self, platform=replace(self.platform, module=module))

    def with_documents(self, *more: IntelDocument) -> "Made":
        return replace(self, documents=(*self.documents, *more))

    def with_levels(self, *levels: Mapping[str, Any], **changes: object) -> "Made":
        return replace(self, documents=(document("tcb-info", tcb_info(*levels, **changes)), self.documents[1]))


def resigned(whole: Certificate, key: Key, *, spki: bytes | None) -> bytes:
    """Sign a real certificate again with another key, perhaps with another key in it."""
    tbs = whole.tbs if spki is None else whole.tbs.replace(whole.spki, spki)
    signature = key.sign(tbs, ec.ECDSA(hashes.SHA256()))
    return der.sequence(tbs, whole.algorithm, der.bit_string(signature))
