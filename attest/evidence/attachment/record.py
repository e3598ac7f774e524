"""Types that every attachment shares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from attest.checks import Check
from attest.encoding import JsonValue
from attest.endorsements.anchors import TrustAnchors
from attest.errors import AttestError, UnsupportedError
from attest.evidence.procedure import Findings

Facts: TypeAlias = Mapping[str, JsonValue]
NO_FACTS: Facts = MappingProxyType({})


class Attested(NamedTuple):
    """CPU evidence that attachments are compared with. It counts once it is verified.

    Attributes:
        kind: of the evidence (``tdx``).
        report_data: the 64 bytes that the guest chose.
        parsed: of the package of its format.
    """

    kind: str
    report_data: bytes
    parsed: Any  # each attachment looks for the type that it needs


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedAttachment:
    """An attachment that holds.

    Attributes:
        claims: its facts.
        simulated: it rests on a key of the simulator.
    """

    claims: Facts
    findings: Findings
    simulated: bool = False

    @property
    def checks(self) -> tuple[Check, ...]:
        """Every check of its procedure."""
        return self.findings.checks


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachmentFormat:
    """Parser and procedure for attachments of one media type.

    Attributes:
        name: of the attachment, in messages and as the member of the claims.
    """

    name: str
    parse: Callable[[bytes], Any]
    verify: Callable[[Any, Attested, TrustAnchors], VerifiedAttachment]


class ParsedAttachment(NamedTuple):
    """An attachment, read and not trusted."""

    format: AttachmentFormat
    parsed: Any  # of the format's parser


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedAttachments:
    """The outcome for all attachments of one Attester."""

    claims: Facts
    checks: tuple[Check, ...]
    failures: tuple[AttestError, ...]
    simulated: bool


def judge_attachments(
    attachments: tuple[ParsedAttachment, ...], attested: Attested, anchors: TrustAnchors
) -> JudgedAttachments:
    """Verify every attachment; one refusal does not hide another."""
    if not attachments:
        return _NOTHING_ATTACHED
    claims: dict[str, JsonValue] = {}
    checks: list[Check] = []
    failures: list[AttestError] = []
    simulated = False
    for format_, parsed in attachments:
        try:
            verified = format_.verify(parsed, attested, anchors)
        except AttestError as exc:
            failures.append(exc)
            checks += exc.checks
            continue
        claims[format_.name] = dict(verified.claims)
        checks += verified.checks
        simulated = simulated or verified.simulated
    return JudgedAttachments(claims=claims, checks=tuple(checks), failures=tuple(failures), simulated=simulated)


_NOTHING_ATTACHED = JudgedAttachments(claims={}, checks=(), failures=(), simulated=False)


def require_attested(kind: str | None, name: str) -> None:
    """Require CPU evidence with report data of the guest's choice.

    Raises:
        UnsupportedError: ``attachment-without-report-data``.
    """
    if kind not in ("sev-snp", "tdx", "sgx"):
        got = kind or "evidence without a CPU report"
        raise UnsupportedError(
            f"{name} was given, but {got} has no report data that could commit to it",
            code="attachment-without-report-data",
            field=name,
            expected="an SNP report, or a quote of TDX or SGX",
            got=got,
        )


def is_simulated(anchors: TrustAnchors) -> bool:
    """Return True if the Verifier Owner accepts the simulator's roots."""
    return any(anchor.simulated for anchor in anchors.anchors)
