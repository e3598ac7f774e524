"""What the tests of tokens ask of facts: reading them from a token, and comparing them with our registries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from attest.errors import AttestError
from attest.evidence.claims import Claim, ClaimType, nested_document
from attest.evidence.gpu.claims import GPU_CLAIMS, SWITCH_CLAIMS
from attest.evidence.intel.claims import SGX_CLAIMS, TDX_CLAIMS
from attest.evidence.snp.claims import SNP_CLAIMS
from attest.results.nras import verify_nras_token
from attest.results.service_token import verify_service_token
from attest.results.token_facts import TokenFacts
from tests.results import tokens as nras
from tests.results.services import (
    AT,
    GOOGLE,
    ITA,
    MAA,
    SERVICE,
)

TRUSTED = {iss: SERVICE.keys() for iss in (MAA, ITA, GOOGLE, "Intel Trust Authority")}
REGISTRIES: Mapping[str, tuple[Claim, ...]] = {
    "sev-snp": SNP_CLAIMS,
    "tdx": TDX_CLAIMS,
    "sgx": SGX_CLAIMS,
    "nvidia-gpu": GPU_CLAIMS,
    "nvidia-switch": SWITCH_CLAIMS,
}
PYTHON_TYPES: Mapping[ClaimType, type] = {
    ClaimType.BOOLEAN: bool,
    ClaimType.INTEGER: int,
    ClaimType.TEXT: str,
    ClaimType.BYTES: bytes,
    ClaimType.TCB: dict,
    ClaimType.LIST: tuple,
    ClaimType.OBJECT: dict,
}


def facts_of(claims: dict[str, Any]) -> tuple[TokenFacts, ...]:
    audience = "https://kms.example" if "aud" in claims else None
    return verify_service_token(SERVICE.sign(claims), trusted=TRUSTED, at=AT, audience=audience).facts


def only(claims: dict[str, Any]) -> TokenFacts:
    (found,) = facts_of(claims)
    return found


def refusal(claims: dict[str, Any]) -> AttestError:
    with pytest.raises(AttestError) as outcome:
        facts_of(claims)
    return outcome.value


def nras_facts(**device: object) -> tuple[TokenFacts, ...]:
    signer = nras.Signer()
    token = nras.token(signer, device=device)
    return verify_nras_token(token, trusted={nras.ISSUER: signer.keys()}, at=nras.AT).facts


def require_registered(facts: TokenFacts) -> None:
    registry = {claim.name: claim for claim in REGISTRIES.get(facts.kind, ())}
    for name, value in facts.claims.items():
        assert type(value) is PYTHON_TYPES[registry[name].type], name
    nested_document(facts.claims)
    nested_document(facts.statements)
