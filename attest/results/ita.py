"""Claims of Intel Trust Authority (ITA), under our names.

Version 2 of the tokens has an object for each TEE or device (``tdx``, ``sgx``, ``nvgpu``), and so have older composite
ones; version 1 has the claims of its only TEE at the top. Objects of other devices (``tpm``) are not read.

Spec: Intel Trust Authority, EAT profile 1.0.1 and the documentation of its tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attest.errors import BindingError
from attest.evidence.claims import ClaimTree
from attest.results.nvidia_token_claims import nvidia_token_claims
from attest.results.tee_token_claims import evaluation_claims, present, sgx_claims, tdx_claims
from attest.results.token_facts import ClaimReader, TokenFacts, TokenFrame, TokenKind, claim_invalid, kind_unsupported

_Read = Callable[[ClaimReader], dict[str, ClaimTree]]
_CLAUSE = "Intel Trust Authority, EAT profile 1.0.1"


_SECTIONS: Mapping[str, tuple[str, str, TokenKind, _Read]] = {
    "tdx": ("TDX", "cpu", "tdx", lambda tee: {**tdx_claims(tee), **evaluation_claims(tee, "tdx_collateral")}),
    "sgx": ("SGX", "cpu", "sgx", lambda tee: {**sgx_claims(tee), **evaluation_claims(tee, "sgx_collateral")}),
    "nvgpu": ("NVGPU", "gpu0", "nvidia-gpu", lambda gpu: nvidia_token_claims(gpu, "nvidia-gpu")),
}
"""Member of the token: attester type, name of the item, its kind, and the reader of its claims."""
_TEES = ("tdx", "sgx")


def ita_nonces(token: ClaimReader) -> tuple[bytes, ...]:
    """Return the nonce that ITA handed out, and the data that the TEE holds, which may be a Relying Party's nonce.

    A GPU holds no data: its report has room for ITA's nonce only, and its sender could write anything beside it.

    Raises:
        EvidenceError: ``token-claim-invalid``.
        BindingError: ``token-nonce-mismatch``: parts of the token have different nonces.
    """
    sections = [section for section in map(token.object, _SECTIONS) if section is not None]
    parts = (token, *sections)
    stated = dict.fromkeys(nonce for nonce in map(_verifier_nonce, parts) if nonce is not None)
    if len(stated) > 1:
        raise BindingError(
            "the parts of the token have different nonces",
            code="token-nonce-mismatch",
            field="verifier_nonce",
            expected="one nonce throughout",
            got=", ".join(nonce.hex() for nonce in stated)[:200],
            clause=_CLAUSE,
        )
    tees = [section for section in map(token.object, _TEES) if section is not None] if sections else [token]
    held = dict.fromkeys(data for data in map(_held, tees) if data)
    return (*stated, *held)


def _verifier_nonce(part: ClaimReader) -> bytes | None:
    nonce = part.object("verifier_nonce")
    return None if nonce is None else nonce.required("val", nonce.encoded("val", url=False))


def _held(part: ClaimReader) -> bytes | None:
    is_device = part.text("attester_type") == _SECTIONS["nvgpu"][0]
    return None if is_device else part.encoded("attester_held_data", url=False)


def ita_facts(token: ClaimReader, frame: TokenFrame) -> tuple[TokenFacts, ...]:
    """Return the facts of a token of ITA about its TEE and the devices beside it.

    Raises:
        EvidenceError: ``token-claim-invalid``.
        BindingError: as ``ita_nonces``.
        UnsupportedError: ``token-kind-unsupported``.
    """
    sections = {name: section for name in _SECTIONS if (section := token.object(name)) is not None}
    if not sections:
        kind = token.text("attester_type") or "none"
        name = next((name for name, (stated, *_) in _SECTIONS.items() if stated == kind), None)
        if name is None:
            expected = "TDX, SGX, NVGPU, or objects of these names"
            raise kind_unsupported("attester_type", kind, field="attester_type", expected=expected, clause=_CLAUSE)
        sections = {name: token}
    elif sections.keys() >= {*_TEES}:
        raise claim_invalid("sgx", "one TEE: tdx or sgx", None)
    nonces, statements = ita_nonces(token), _statements(token)
    return tuple(_facts(name, section, frame, nonces, statements) for name, section in sections.items())


def _facts(
    name: str, section: ClaimReader, frame: TokenFrame, nonces: tuple[bytes, ...], shared: dict[str, ClaimTree]
) -> TokenFacts:
    attester, item, kind, read = _SECTIONS[name]
    stated = section.text("attester_type")
    if stated not in (None, attester):
        raise claim_invalid(section.where("attester_type"), attester, stated)
    statements: dict[str, ClaimTree | None] = {
        **shared,
        "debug_status": section.text("dbgstat"),
        "runtime_data": section.tree("attester_runtime_data"),
    }
    return TokenFacts(
        frame=frame,
        name=item,
        kind=kind,
        claims=read(section),
        statements=present(statements),
        nonces=nonces,
        held_data=_held(section) if name in _TEES else None,
    )


def _statements(token: ClaimReader) -> dict[str, ClaimTree]:
    """Return the requested policies that matched or not, and the claims that they add."""
    matched, unmatched = (_policies(token, f"policy_ids_{word}") for word in ("matched", "unmatched"))
    return present(
        {
            "policies_matched": matched,
            "policies_unmatched": unmatched,
            "policy_defined": token.tree("policy_defined_claims"),
        }
    )


def _policies(token: ClaimReader, name: str) -> tuple[ClaimTree, ...]:
    """Read a list of policies, or its absence, which is an empty one: id, version, and hash where there is one."""
    return tuple(
        present(
            {
                "id": policy.required("id", policy.text("id")),
                "version": policy.text("version"),
                "hash": policy.text("hash"),
            }
        )
        for policy in token.objects(name) or ()
    )
