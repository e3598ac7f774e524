"""Where this verifier and NVIDIA's Python verifier 2.7.3 differ about one question, why, and the clause that decides.

A question is one of their steps (``driver_rim.signature``); our checks about the same stand beside it. They differ
when one says no and the other does not. ``applies`` looks at facts of the case, so that an entry explains what it
says and no more; a test wants each entry to be needed by at least one case.
"""

from collections.abc import Callable
from dataclasses import dataclass

from attest.checks import Outcome
from attest.endorsements.rims import RimDocument
from attest.endorsements.x509 import parse_certificate, pem_blocks
from attest.errors import AttestError
from attest.evidence.gpu.certificates import is_leaf
from attest.evidence.gpu.evidence import parse_nvidia_report
from attest.evidence.gpu.measurements import MeasurementSource
from attest.evidence.gpu.rim import ParsedRim, read_rim
from attest.nvsdk import Pair
from tests.differential.nvidia_cases import NvidiaCase

PASS, FAIL, OPEN = Outcome.PASS, Outcome.FAIL, Outcome.NOT_EVALUATED


@dataclass(frozen=True, kw_only=True)
class NvidiaDifference:
    """One reason for which the two differ.

    Attributes:
        name: what to call it.
        reason: who does what.
        clause: section of specs/nvidia-gpu.md that decides that ours is right.
        applies: whether it explains a pair of answers that differ.
    """

    name: str
    reason: str
    clause: str
    applies: Callable[[NvidiaCase, Pair, tuple[Pair, ...]], bool]


def differ(pair: Pair) -> bool:
    """Say whether one of them refuses and the other does not."""
    return (pair.ours is FAIL) != (pair.theirs is FAIL)


def explain(case: NvidiaCase, pair: Pair, every: tuple[Pair, ...]) -> NvidiaDifference | None:
    """Return the entry that explains a difference, or None."""
    return next((one for one in DIFFERENCES if one.applies(case, pair, every)), None)


# -- facts


def _rim(case: NvidiaCase, role: str) -> ParsedRim | None:
    slot: MeasurementSource = "driver" if role == "driver" else "vbios"
    try:
        return read_rim(RimDocument(xml=case.rims[slot])) if slot in case.rims else None
    except AttestError:
        return None


def _version(case: NvidiaCase, role: str) -> str | None:
    opaque = parse_nvidia_report(case.report).report.opaque
    return opaque.driver_version if role == "driver" else opaque.gpu_vbios_version()


def _fits(case: NvidiaCase, role: str) -> bool:
    rim, version = _rim(case, role), _version(case, role)
    return rim is not None and version is not None and rim.version.lower() == version.lower()


def _their(every: tuple[Pair, ...], question: str) -> Outcome:
    return next(pair.theirs for pair in every if pair.question == question)


# -- what differs


def _window(case: NvidiaCase, pair: Pair, every: tuple[Pair, ...]) -> bool:
    role, _, step = pair.question.partition("_rim.")
    return step == "signature" and pair.ours in (PASS, OPEN) and _their(every, f"{role}_rim.chain") is FAIL


def _slot(case: NvidiaCase, pair: Pair, every: tuple[Pair, ...]) -> bool:
    role, _, step = pair.question.partition("_rim.")
    return step == "version" and pair.ours is not FAIL and not _fits(case, role) and len(case.rims) == 2


def _unselected(case: NvidiaCase, pair: Pair, every: tuple[Pair, ...]) -> bool:
    role, _, step = pair.question.partition("_rim.")
    judged = step in ("chain", "signature") and pair.ours is OPEN
    return judged and role in case.rims and not _fits(case, role)


def _missing(case: NvidiaCase, pair: Pair, every: tuple[Pair, ...]) -> bool:
    role, _, step = pair.question.partition("_rim.")
    return step == "version" and pair.ours is FAIL and pair.theirs is OPEN and role not in case.rims


def _unsigned(case: NvidiaCase, pair: Pair, every: tuple[Pair, ...]) -> bool:
    unsigned = any(rim is not None and rim.signature != "valid" for rim in (_rim(case, "driver"), _rim(case, "vbios")))
    return pair.question == "measurements" and pair.ours in (OPEN, PASS) and pair.theirs is FAIL and unsigned


def _unfit(case: NvidiaCase, pair: Pair, every: tuple[Pair, ...]) -> bool:
    misfit = any(role in case.rims and not _fits(case, role) for role in ("driver", "vbios"))
    return pair.question == "measurements" and pair.ours in (OPEN, PASS) and pair.theirs is FAIL and misfit


def _alone(case: NvidiaCase, pair: Pair, every: tuple[Pair, ...]) -> bool:
    return pair.question == "measurements" and (pair.ours, pair.theirs) == (FAIL, OPEN) and len(case.rims) == 1


def _framing(case: NvidiaCase, pair: Pair, every: tuple[Pair, ...]) -> bool:
    try:
        parse_nvidia_report(case.report)
    except AttestError as exc:
        return exc.exit_code == 3
    return False


def _comment(case: NvidiaCase, pair: Pair, every: tuple[Pair, ...]) -> bool:
    role, _, step = pair.question.partition("_rim.")
    slot: MeasurementSource = "driver" if role == "driver" else "vbios"
    return step == "version" and pair.ours is FAIL and b"<!--" in case.rims.get(slot, b"")


def _no_root(case: NvidiaCase, pair: Pair, every: tuple[Pair, ...]) -> bool:
    return pair.question == "chain" and pair.ours is PASS and case.chain.count(b"BEGIN CERTIFICATE") == 4


def _no_leaf(case: NvidiaCase, pair: Pair, every: tuple[Pair, ...]) -> bool:
    blocks = pem_blocks(case.chain)
    leaf = bool(blocks) and is_leaf(parse_certificate(blocks[0][1]))
    return pair.question == "signature" and (pair.ours, pair.theirs) == (OPEN, FAIL) and not leaf


def _empty_chain(case: NvidiaCase, pair: Pair, every: tuple[Pair, ...]) -> bool:
    return not case.chain and (pair.question == "parsed" or pair.ours is None)


DIFFERENCES: tuple[NvidiaDifference, ...] = (
    NvidiaDifference(
        name="a report with another framing",
        reason="they compare no fixed field and take the last 96 bytes as the signature; we refuse what the "
        "specification does not have, and then look at nothing else",
        clause="2, 3",
        applies=_framing,
    ),
    NvidiaDifference(
        name="the time of a RIM's signers",
        reason="their XML library verifies the signers' chain and dates inside the signature check, so a signature "
        "that holds 'fails' when a signer is expired, not valid yet, or of another root; we answer the two apart",
        clause="9.3, 9.4",
        applies=_window,
    ),
    NvidiaDifference(
        name="slots for RIMs",
        reason="they take whatever lies in the slot named driver or VBIOS; we choose by edition, product and version, "
        "so that two RIMs in exchanged order are the complete case",
        clause="9.2",
        applies=_slot,
    ),
    NvidiaDifference(
        name="a RIM of another version",
        reason="they judge signature and chain of a RIM that is not of the report's version; for us it is no RIM of "
        "this report, and what is missing is told instead",
        clause="9.2, 12",
        applies=_unselected,
    ),
    NvidiaDifference(
        name="no RIM at all",
        reason="a slot without a RIM was not asked of their functions; for us the RIM is missing",
        clause="9.2, 21",
        applies=_missing,
    ),
    NvidiaDifference(
        name="values that nobody signed",
        reason="they read reference values before they verify the signature, and compare with them; we have no "
        "values of a RIM whose signature does not hold",
        clause="9.3, 22 (4)",
        applies=_unsigned,
    ),
    NvidiaDifference(
        name="comparison with a RIM of another version",
        reason="they compare with whatever RIMs lie in the slots, and find conflicts of one RIM given twice; we "
        "compare with the RIMs of the report's versions only",
        clause="9.2, 10",
        applies=_unfit,
    ),
    NvidiaDifference(
        name="one RIM of two",
        reason="their comparison needs both RIMs; we compare with the one at hand, because a mismatch there is a "
        "failure of its own",
        clause="10 (8)",
        applies=_alone,
    ),
    NvidiaDifference(
        name="a comment in a signed RIM",
        reason="comments are outside the digest, so anybody can add one to a signed file; they do not look, we refuse "
        "the document, and then it is missing",
        clause="9.3",
        applies=_comment,
    ),
    NvidiaDifference(
        name="a chain without its root",
        reason="they drop the last certificate whatever it is and count five; we drop a self-issued last one only, "
        "and four besides the pinned root are all that is needed",
        clause="6.1",
        applies=_no_root,
    ),
    NvidiaDifference(
        name="a chain that begins at no attestation key",
        reason="they try the key of the first certificate, whatever it is; for us a chain of another shape has no "
        "leaf, and there is no key to try",
        clause="6.1",
        applies=_no_leaf,
    ),
    NvidiaDifference(
        name="an empty chain",
        reason="they are given no certificate and fail at the chain; a device of NVIDIA's JSON without one is "
        "malformed",
        clause="16",
        applies=_empty_chain,
    ),
)
