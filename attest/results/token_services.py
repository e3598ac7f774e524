"""The services whose tokens are read, recognised by their issuers and by their claims.

Nothing here is verified. A token's own statements select its reader, and a set among the keys that the operator named;
they never select another key or an address.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from attest.encoding import JsonValue
from attest.errors import EvidenceError
from attest.results.google import google_facts, google_nonces
from attest.results.ita import ita_facts, ita_nonces
from attest.results.jose import MAX_TOKEN_BYTES, unverified_claims
from attest.results.maa import maa_facts, maa_nonces
from attest.results.token_facts import ClaimReader, TokenFacts, TokenFrame, TokenService, claim_invalid
from attest.results.token_refusal import token_malformed

malformed = partial(token_malformed, clause="RFC 7519, section 4.1")
"""Makes the refusal of a token that cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenServiceProfile:
    """The token format of one service.

    Attributes:
        ignored: header members that it sends and that are ignored.
        issuers: its issuers, as far as they are fixed.
        domains: ends of the host names of those that are not.
    """

    title: str
    algorithms: frozenset[str]
    ignored: frozenset[str]
    issuers: frozenset[str]
    nonces: Callable[[ClaimReader], tuple[bytes, ...]]
    facts: Callable[[ClaimReader, TokenFrame], tuple[TokenFacts, ...]]
    domains: tuple[str, ...] = ()

    def owns(self, issuer: str) -> bool:
        """Return True for an issuer that is known to be this service."""
        scheme, _, host = issuer.partition("://")
        return issuer in self.issuers or (scheme == "https" and "/" not in host and host.endswith(self.domains))


# ``jku`` names an address and ``x5t`` a certificate. Neither is followed: a key is found by ``kid`` among trusted ones.
_SERVICES: Mapping[TokenService, TokenServiceProfile] = {
    "maa": TokenServiceProfile(
        title="Microsoft Azure Attestation",
        algorithms=frozenset({"RS256"}),
        ignored=frozenset({"jku", "x5t", "x5t#S256"}),
        issuers=frozenset(),
        domains=(".attest.azure.net", ".attest.azure.us", ".attest.azure.cn"),
        nonces=maa_nonces,
        facts=maa_facts,
    ),
    "ita": TokenServiceProfile(
        title="Intel Trust Authority",
        algorithms=frozenset({"PS384", "RS256"}),
        ignored=frozenset({"jku"}),
        issuers=frozenset(
            {
                "https://portal.trustauthority.intel.com",
                "https://portal.eu.trustauthority.intel.com",
                "Intel Trust Authority",
            }
        ),
        nonces=ita_nonces,
        facts=ita_facts,
    ),
    "google": TokenServiceProfile(
        title="Google Cloud Attestation",
        algorithms=frozenset({"RS256"}),
        ignored=frozenset(),
        issuers=frozenset({"https://confidentialcomputing.googleapis.com"}),
        nonces=google_nonces,
        facts=google_facts,
    ),
}
_BY_INTEL_FOR_GOOGLE = replace(
    _SERVICES["ita"], title="Intel Trust Authority, for Google Cloud", nonces=google_nonces, facts=google_facts
)
"""Confidential Space lets a workload choose Intel as its Verifier; the token then has Google's claims."""


def service_of(data: bytes) -> TokenService | None:
    """Return the service whose claims a token has; None for any other. Nothing is verified."""
    try:
        _, claims = read_unverified(data)
    except EvidenceError:
        return None
    return _shape(claims)


def read_unverified(data: bytes) -> tuple[str, dict[str, JsonValue]]:
    """Return the token's text and its claims, unverified.

    The token is a JWT in compact form, ASCII, perhaps with white space around it.

    Raises:
        EvidenceError: ``token-malformed``, ``json-invalid`` or ``base64-invalid``.
    """
    if len(data) > MAX_TOKEN_BYTES:
        raise malformed(f"{len(data)} bytes, more than {MAX_TOKEN_BYTES}")
    try:
        text = data.decode("ascii").strip()
    except UnicodeDecodeError as exc:
        raise malformed("it is not ASCII text") from exc
    return text, unverified_claims(text, what="the token", refusal=malformed)


def _shape(claims: Mapping[str, JsonValue]) -> TokenService | None:
    """Return the service that these claims are of, if it is exactly one."""
    there = {name for name, value in claims.items() if value is not None}
    sections = any(isinstance(claims.get(name), dict) for name in ("tdx", "sgx", "nvgpu", "tpm"))
    found: list[TokenService] = []
    if "x-ms-attestation-type" in there:
        found.append("maa")
    if {"hwmodel", "swname"} <= there:
        found.append("google")
    elif "attester_type" in there or sections:
        found.append("ita")
    return found[0] if len(found) == 1 else None


def is_service_itself(service: TokenService, issuer: str) -> bool:
    """Return True for an issuer that is the service, and no Verifier of the operator's choice in its format."""
    itself = service in _SERVICES and _SERVICES[service].owns(issuer)
    return itself or (service == "google" and _BY_INTEL_FOR_GOOGLE.owns(issuer))


def claimed_service(claims: Mapping[str, JsonValue]) -> tuple[TokenService, TokenServiceProfile, str]:
    """Return the service that a token claims as its own, and its issuer, which must be one of that service.

    Raises:
        EvidenceError: ``token-malformed`` or ``token-claim-invalid``.
    """
    name = _shape(claims)
    if name is None:
        raise malformed("its claims fit no known service, or several")
    issuer = ClaimReader(members=claims).text("iss")
    if issuer is None:
        raise claim_invalid("iss", "the issuer", None)
    service = _SERVICES[name]
    if name == "google" and _BY_INTEL_FOR_GOOGLE.owns(issuer):
        return name, _BY_INTEL_FOR_GOOGLE, issuer
    owner = next((each for each in _SERVICES.values() if each.owns(issuer)), service)
    if owner is not service:
        raise claim_invalid("iss", f"an issuer of {service.title}", issuer)
    return name, service, issuer
