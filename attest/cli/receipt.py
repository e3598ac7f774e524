"""``attest receipt``: receipts for answers, checked with their chain or shown."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

import click

from attest.cli.model_keys import MODEL_ID
from attest.cli.option_values import hex_of, utc
from attest.cli.options import Network, network_options, trust_options
from attest.cli.reference_options import References, references_options
from attest.terminal.display import Display, display_options, gathered, stacked
from attest.terminal.lazy_commands import ExampleGroup

if TYPE_CHECKING:
    from collections.abc import Callable

    from attest.checks import Unchecked
    from attest.endorsements.pool import Endorsements
    from attest.evidence.envelope import Evidence
    from attest.policy.loader import Policy
    from attest.receipts import BodyDigest, ReceiptExpectation, ReceiptFile

_MAX_BODY_BYTES: Final = 1 << 30


@click.group(
    cls=ExampleGroup,
    short_help="Check receipts for answers: which model, in which machine.",
    examples=(
        "attest receipt verify a.receipt --request q.json --response a.txt --policy p.yaml --model-owner owner.pub",
        "attest receipt show a.receipt                       # show the content (nothing is verified)",
    ),
)
def receipt() -> None:
    """Check receipts for answers: which model, in which machine, gave this answer to this request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """The model, bodies and names that a receipt has to be about; None leaves one out."""

    model_id: bytes | None
    request: str | None
    response: str | None
    service: str | None
    nonce: bytes | None
    challenge: bytes | None
    max_age: int | None
    allow_incomplete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineOptions:
    """The options for the evidence of the machine."""

    at: datetime | None
    endorsements: tuple[str, ...]
    offline: bool
    unchecked: tuple[Unchecked, ...]
    anchors: str | None
    allow_simulated: bool
    bundle_keys: tuple[str, ...]
    network: Network


_exchange_options = gathered(
    "exchange",
    Exchange,
    (
        MODEL_ID,
        click.option("--request", metavar="FILE", help="Body of the request, as it was sent."),
        click.option("--response", metavar="FILE", help="Body of the response, as it was received."),
        click.option("--service", metavar="NAME", help="Name that the service must have. Default: any."),
        click.option("--nonce", type=hex_of(32), metavar="HEX", help="Nonce that was sent for the evidence."),
        click.option(
            "--challenge",
            type=hex_of(shortest=8, longest=64),
            metavar="HEX",
            help="Challenge that was sent with the request.",
        ),
        click.option(
            "--max-age", type=click.IntRange(min=0), metavar="SECONDS", help="Maximum age of the receipt. Default: any."
        ),
        click.option(
            "--allow-incomplete",
            is_flag=True,
            help="Also accept an answer that was cut off. The result shows it.",
        ),
    ),
    title="The exchange",
)
_machine_options = gathered(
    "machine",
    MachineOptions,
    (
        click.option("--at", type=utc, metavar="TIME", help="Moment of the check, RFC 3339. Default: now."),
        trust_options,
        network_options,
    ),
    title="Time of the check",
)
_file_options = stacked(
    (
        click.argument("file", metavar="FILE"),
        click.option(
            "--part",
            "parts",
            metavar="FILE",
            multiple=True,
            help="A part that the receipt names by its digest. Repeatable.",
        ),
    )
)


@receipt.command(
    examples=(
        "attest receipt verify a.receipt --request q.json --response a.txt --policy p.yaml --model-owner owner.pub",
        "attest receipt verify a.receipt --policy p.yaml --model-owner owner.pub --offline --json",
        "attest receipt verify a.receipt --part evidence.cbor --part sealed.json --policy … --model-owner …",
    ),
)
@_file_options
@click.option("--policy", metavar="FILE", required=True, help="Appraisal policy for the machine, YAML or JSON.")
@click.option(
    "--model-owner",
    "owners",
    metavar="PEM",
    multiple=True,
    required=True,
    help="Public key of the model's owner, P-384 or P-256. Repeatable.",
)
@_exchange_options
@references_options
@_machine_options
@display_options
def verify(
    *,
    file: str,
    parts: tuple[str, ...],
    policy: str,
    owners: tuple[str, ...],
    exchange: Exchange,
    references: References,
    machine: MachineOptions,
    display: Display,
) -> int:
    """Check a receipt with its whole chain: machine, policy, model, release of its key, and both bodies.

    A request or response that is not given is not compared, and the result says so. Without --nonce, the age of the
    evidence is not judged. An answer that was cut off is refused, unless --allow-incomplete accepts it.

    Exit codes: 0 affirmed, 1 the policy does not affirm the machine, 2 usage, 3 malformed, 4 something does not hold,
    5 a part or an endorsement is missing.
    """
    from attest.cli.output import show_result
    from attest.cli.policies import read_policies
    from attest.clock import this_second
    from attest.errors import AttestError, ConfigurationError
    from attest.receipts import verify_receipt
    from attest.receipts.document import COMMAND, verified_receipt_document
    from attest.results.document import refused_document
    from attest.terminal.boundary import report_error

    at = machine.at or this_second()
    (loaded,) = read_policies((policy,), references=references)
    expect = _expectation(loaded, owners=owners, exchange=exchange, machine=machine, at=at, display=display)
    request, response = _body(exchange.request, "--request"), _body(exchange.response, "--response")
    try:
        verified = verify_receipt(
            _opened(file, parts, display), expect=expect, at=at, request=request, response=response
        )
    except ConfigurationError:
        raise
    except AttestError as exc:
        unchecked = (*machine.unchecked, *loaded.unchecked)
        show_result(refused_document(exc, command=COMMAND, at=at, unchecked=unchecked), display=display)
        report_error(exc.message, exc.hint)
        return exc.exit_code
    return show_result(verified_receipt_document(verified), display=display)


@receipt.command(
    examples=("attest receipt show a.receipt", "attest receipt show a.receipt --json"),
)
@_file_options
@display_options
def show(*, file: str, parts: tuple[str, ...], display: Display) -> int:
    """Show the content of a receipt and its chain. Nothing is verified.

    Exit codes: 0 shown, 2 usage, 3 malformed.
    """
    from attest.cli.documents import show_document
    from attest.receipts.document import unverified_receipt_document

    document = unverified_receipt_document(_opened(file, parts, display))
    display.warn("nothing is verified: 'attest receipt verify' checks the signatures and the chain")
    show_document(document, display=display)
    return 0


def _opened(file: str, parts: tuple[str, ...], display: Display) -> ReceiptFile:
    """Read a receipt with the parts that it names."""
    from hashlib import sha256

    from attest.cli.files import read_file
    from attest.receipts import parse_receipt_file
    from attest.receipts.receipt_file import MAX_FILE_BYTES

    opened = parse_receipt_file(read_file(file, limit=MAX_FILE_BYTES, what="FILE"))
    given = [read_file(part, limit=MAX_FILE_BYTES, what="--part") for part in parts]
    for name, data in zip(parts, given, strict=True):
        if (digest := sha256(data)).digest() not in opened.missing:
            display.warn(f"--part {name} is not used: no part that is missing has its SHA-256 {digest.hexdigest()}")
    return opened.with_parts(tuple(given))


def _body(name: str | None, what: str) -> BodyDigest | None:
    from attest.cli.files import read_file
    from attest.receipts import BodyDigest

    return None if name is None else BodyDigest.of(read_file(name, limit=_MAX_BODY_BYTES, what=what))


def _expectation(
    policy: Policy,
    *,
    owners: tuple[str, ...],
    exchange: Exchange,
    machine: MachineOptions,
    at: datetime,
    display: Display,
) -> ReceiptExpectation:
    from attest.cli.endorsement_inputs import read_anchors, read_pool
    from attest.cli.model_keys import trusted_keys
    from attest.cli.verification_inputs import read_bundle_keys
    from attest.receipts import ReceiptExpectation

    if machine.allow_simulated:
        display.warn("SIMULATED evidence is accepted (--allow-simulated); it proves nothing about hardware")
    pool = read_pool(machine.endorsements, at=at, display=display, bundle_keys=read_bundle_keys(machine.bundle_keys))
    return ReceiptExpectation(
        policy=policy,
        anchors=read_anchors(machine.anchors, simulated=machine.allow_simulated),
        endorsements=pool,
        fetch=None if machine.offline else _fetcher(machine.network, pool, display),
        unchecked=machine.unchecked,
        owners=trusted_keys(owners, what="--model-owner"),
        model=exchange.model_id,
        audience=exchange.service,
        nonce=exchange.nonce,
        challenge=exchange.challenge,
        max_age=None if exchange.max_age is None else timedelta(seconds=exchange.max_age),
        allow_incomplete=exchange.allow_incomplete,
    )


def _fetcher(network: Network, pool: Endorsements, display: Display) -> Callable[[Evidence, datetime], Endorsements]:
    """Return a function that fetches missing endorsements of evidence whose vendor has a known service."""
    from attest.cli.endorsement_fetch import fetched_endorsements
    from attest.endorsements.pool import NO_ENDORSEMENTS
    from attest.fetch import can_be_fetched

    def fetch(evidence: Evidence, at: datetime) -> Endorsements:
        if not can_be_fetched(evidence):
            return NO_ENDORSEMENTS
        return fetched_endorsements(evidence, at=at, network=network, display=display, pool=pool)

    return fetch
