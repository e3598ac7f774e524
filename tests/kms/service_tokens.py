"""Tokens of other Verifiers' services for tests of releases, and policies that accept them."""

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from tests.kms.skr.vault import NOT_STATED, SNP
from tests.results.services import (
    GOOGLE,
    HASH,
    ITA,
    MAA,
    REGISTER,
    SERVICE,
    Service,
    google,
    ita_head,
    ita_section,
    ita_tdx,
    maa_guest,
    maa_sgx,
    maa_snp,
    maa_tdx,
    sgx,
    snp,
    submods,
    without,
)

TDX = {"mr_td": ["image"], "rtmr1": NOT_STATED, "accepted_advisories": NOT_STATED, "service_td": NOT_STATED}
ENCLAVE = {
    "mr_enclave": ["enclave"],
    "tcb_status": NOT_STATED,
    "accepted_advisories": NOT_STATED,
}
_GOOGLE_OMITS = (
    "mr_td",
    "rtmr1",
    "tcb_status",
    "accepted_advisories",
    "service_td",
    "unnamed_attributes",
    "unknown_xfam",
)
GOOGLE_TDX = {
    **dict.fromkeys(_GOOGLE_OMITS, NOT_STATED),
    "td_attributes": dict.fromkeys(("debug", "sept_ve_disable", "migratable"), NOT_STATED),
}
Claims = dict[str, Any]  # Any: claims of a token


def policy(issuer: str, *, more: Claims | None = None, **sections: object) -> bytes:
    """A policy that accepts tokens of an issuer."""
    return json.dumps(
        {
            "schema": "attest.policy/1",
            "name": "by-token",
            "version": 1,
            "verifiers": [{"issuer": issuer, **(more or {})}],
            "reference_values": {
                "image": {"values": [REGISTER], "origin": "a test"},
                "enclave": {"values": [HASH], "origin": "a test"},
            },
            **sections,
        }
    ).encode()


@dataclass(frozen=True)
class Kind:
    """A kind of token: how it commits to data, and the policy of a key that accepts it."""

    issuer: str
    claims: Callable[[bytes], Claims]
    policy: bytes
    alg: str = "RS256"


def padded(data: bytes) -> str:
    """The report data that commit to this data, in hex."""
    return (sha256(data).digest() + bytes(32)).hex()


def held(data: bytes) -> str:
    return base64.b64encode(sha256(data).digest()).decode()


def kinds(audience: str) -> dict[str, Kind]:
    """Every kind; Google's tokens are for an audience."""
    paravisor = {"user-data": ""}
    return {
        "maa sevsnpvm": Kind(
            MAA,
            lambda data: without(maa_snp(**{"x-ms-sevsnpvm-reportdata": padded(data)}), "x-ms-runtime"),
            policy(MAA, snp=SNP),
        ),
        "maa tdxvm": Kind(MAA, lambda data: maa_tdx(tdx_report_data=padded(data)), policy(MAA, tdx=TDX)),
        "maa azurevm": Kind(
            MAA,
            lambda data: maa_guest(snp(**{"x-ms-runtime": paravisor | {"user-data": padded(data)}})),
            policy(MAA, snp=SNP),
        ),
        "maa sgx": Kind(
            MAA,
            lambda data: maa_sgx(**{"x-ms-sgx-ehd": base64.urlsafe_b64encode(data).decode().rstrip("=")}),
            policy(MAA, sgx=ENCLAVE),
        ),
        "ita tdx": Kind(
            ITA, lambda data: ita_tdx(ita_section(attester_held_data=held(data))), policy(ITA, tdx=TDX), "PS384"
        ),
        "ita sgx": Kind(
            ITA,
            lambda data: {**ita_head(), "sgx": sgx(attester_held_data=held(data))},
            policy(ITA, sgx=ENCLAVE),
            "PS384",
        ),
        "google": Kind(
            GOOGLE,
            lambda data: google(
                aud=audience, eat_nonce=["a word of the guest", sha256(data).hexdigest()], submods=submods()
            ),
            policy(GOOGLE, more={"statements": {"container.image_digest": ["sha256:" + HASH]}}, tdx=GOOGLE_TDX),
        ),
    }


def issued(claims: Claims, *, at: int, of: Service = SERVICE, alg: str = "RS256", **header: object) -> bytes:
    """Sign claims as of a moment: issued then, and valid for an hour, unless they state another time."""
    times = {"iat": at, "nbf": at, "exp": at + 3600, "jti": "b65da1"}
    return of.sign({**claims, **times}, alg=alg, **header)


def trust(folder: Path, *issuers: str, of: Service = SERVICE, more: str = "") -> Path:
    """Write the operator's file of trusted Verifiers."""
    (folder / "services.jwks").write_bytes(of.jwks())
    path = folder / "service-verifiers.toml"
    path.write_text("".join(f'[[verifier]]\nissuer = "{one}"\nkeys = "services.jwks"\n{more}' for one in issuers))
    return path
