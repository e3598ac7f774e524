"""Attestation Results: the JSON result of the command line, our own tokens (EAR), and tokens of other Verifiers."""

from __future__ import annotations

from attest.results.document import RESULT_SCHEMA, appraised_document, refused_document, verified_document
from attest.results.ear import Ear, EarAppraisal, TrustVector, VerifierId
from attest.results.ear_build import build_ear
from attest.results.ear_details import EarDetails
from attest.results.ear_verify import ExpectedEar, VerifiedEar, verify_ear
from attest.results.issuer import IssuerKey, SigningKeyState, TokenIssuer
from attest.results.jose import MAX_JWKS_BYTES, TokenKey, read_jwks, read_public_keys, rsa_jwk, verify_token
from attest.results.raw_signatures import SigningKey, jwk_thumbprint, read_signing_key
from attest.results.service_appraise import appraise_service_token
from attest.results.service_token import VerifiedServiceToken, verify_service_token
from attest.results.token_binding import commits_to
from attest.results.token_facts import TokenFacts, TokenFrame
from attest.results.token_policy import judge_ear, judge_facts
from attest.results.token_services import read_unverified, service_of

__all__ = [
    "MAX_JWKS_BYTES",
    "RESULT_SCHEMA",
    "Ear",
    "EarAppraisal",
    "EarDetails",
    "ExpectedEar",
    "IssuerKey",
    "SigningKey",
    "SigningKeyState",
    "TokenFacts",
    "TokenFrame",
    "TokenIssuer",
    "TokenKey",
    "TrustVector",
    "VerifiedEar",
    "VerifiedServiceToken",
    "VerifierId",
    "appraise_service_token",
    "appraised_document",
    "build_ear",
    "commits_to",
    "judge_ear",
    "judge_facts",
    "jwk_thumbprint",
    "read_jwks",
    "read_public_keys",
    "read_signing_key",
    "read_unverified",
    "refused_document",
    "rsa_jwk",
    "service_of",
    "verified_document",
    "verify_ear",
    "verify_service_token",
    "verify_token",
]
