"""``attest references``: documents of reference values, made from foreign formats and from evidence."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import click

from attest.cli.documents import print_document
from attest.cli.option_values import utc
from attest.cli.options import VerificationOptions, question_options
from attest.cli.references_verify import verify
from attest.terminal.display import Display, display_options
from attest.terminal.lazy_commands import ExampleGroup

if TYPE_CHECKING:
    from attest.encoding import JsonValue
    from attest.endorsements.anchors import TrustAnchors
    from attest.endorsements.cose import CoseKey
    from attest.evidence.gpu.rim import VerifiedRim
    from attest.policy.reference_values.reference_documents import ReferenceDocument, ReferenceEntry

LIST_SCHEMA = "attest.references-list/1"
MADE_SCHEMA = "attest.references-made/1"


@click.group(
    cls=ExampleGroup,
    examples=(
        "attest references from-evidence report.bin --nonce 5f1c... --name fleet --origin 'host 7' -o fleet.json",
        "attest references from-corim image.corim --key supplier.pub -o image.json",
        "attest references list fleet.json image.json",
    ),
)
def references() -> None:
    """Make, convert, list and verify documents of reference values, which policies name under 'references'."""


references.add_command(verify)


_VERSION = click.option(
    "--document-version",
    type=click.IntRange(1, (1 << 53) - 1),
    default=1,
    show_default=True,
    help="Version of the document; policies can demand a minimum.",
)
_DAYS = click.option(
    "--days", type=click.IntRange(1, 3660), default=90, show_default=True, help="Validity of the values."
)
_OUTPUT = click.option("-o", "--output", metavar="FILE", default="-", help="Output file. Default: standard output.")
_FORCE = click.option("--force", is_flag=True, help="Replace an existing FILE.")


@references.command(
    "list",
    short_help="Show documents: names, expiry, revoked values.",
    examples=("attest references list *.json", "attest references list fleet.json --at 2027-01-01T00:00:00Z --json"),
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--at", "moment", type=utc, metavar="TIME", help="Moment of use, RFC 3339. Default: now.")
@display_options
def list_(files: tuple[str, ...], moment: datetime | None, display: Display) -> int:
    """Show documents of reference values: digest, dates, each value, and which have ended or are revoked.

    A value that one of the documents revokes is shown as revoked in all of them. Signatures are for 'attest policy
    verify'. Exit codes: 0 all of them load, 2 one does not.
    """
    from attest.clock import this_second
    from attest.encoding import rfc3339_text

    at = moment or this_second()
    documents = [_read(file) for file in files]
    revoked = {one.value: one.reason for document in documents for one in document.revoked}
    rows = [{"file": file, **_listed(document, revoked, at)} for file, document in zip(files, documents, strict=True)]
    if display.json:
        print_document({"schema": LIST_SCHEMA, "at": rfc3339_text(at), "documents": [*rows]})
    elif not display.quiet:
        from attest.cli.json_tree import print_tree

        for row in rows:
            print_tree(row, display=display)
    return 0


@references.command(
    short_help="Convert the values of a CoRIM.",
    examples=(
        "attest references from-corim image.corim --key supplier.pub -o image.json",
        "attest references from-corim image.corim --unverified --name lab",
    ),
)
@click.argument("file", metavar="FILE")
@click.option("--key", metavar="FILE", help="The CoRIM must be signed by this public key (PEM: Ed25519, P-256, P-384).")
@click.option("--unverified", is_flag=True, help="Read it without a check of its signature. The document states this.")
@click.option("--name", metavar="NAME", help="Name of the document. Default: the CoRIM's id.")
@click.option("--at", "moment", type=utc, metavar="TIME", help="Date of issue of a CoRIM without one. Default: now.")
@_VERSION
@_OUTPUT
@_FORCE
@display_options
def from_corim(
    *,
    file: str,
    key: str | None,
    unverified: bool,
    name: str | None,
    moment: datetime | None,
    document_version: int,
    output: str,
    force: bool,
    display: Display,
) -> int:
    """Convert the reference values of a CoRIM (CBOR, signed or not) into a document of reference values.

    Everything else in it is reported as a warning: conditions on a TCB, for one, are for the policy. Exit codes: 0
    written, 2 usage, 3 no CoRIM, or nothing in it can be carried over, 4 not signed by the key.
    """
    from attest.cli.files import read_file
    from attest.clock import this_second
    from attest.policy.reference_values.corim import MAX_CORIM_BYTES, parse_corim, verify_corim
    from attest.policy.reference_values.corim_import import references_from_corim

    if (key is None) != unverified:
        raise click.UsageError("give either --key FILE or --unverified")
    public = None if key is None else _public_key(key)
    parsed = parse_corim(read_file(file, limit=MAX_CORIM_BYTES, what="FILE"))
    signer = None if public is None else verify_corim(parsed, key=public).hex()
    how = "whose signature was not verified" if signer is None else f"signed by {signer}"
    imported = references_from_corim(parsed, at=moment or this_second(), name=name, version=document_version, how=how)
    for one in imported.left_out:
        display.warn(f"not imported: {one}")
    return _write(imported.document, output, force=force, display=display, left_out=imported.left_out, signer=signer)


@references.command(
    short_help="Record the measurements of verified evidence.",
    examples=(
        "attest references from-evidence report.bin --nonce 5f1c... --name fleet --origin 'host 7' -o fleet.json",
        "attest references from-evidence envelope.json --unchecked freshness=recorded --name x --origin lab --days 7",
    ),
)
@click.option("--name", metavar="NAME", required=True, help="Name of the document.")
@click.option("--origin", metavar="TEXT", required=True, help="The machine, and the reason why its state is good.")
@click.option(
    "--kind", "kinds", metavar="KIND", multiple=True, help="Only values of this kind, such as tdx-mr-td. Repeatable."
)
@_DAYS
@_VERSION
@_OUTPUT
@_FORCE
@question_options
def from_evidence(
    *,
    question: VerificationOptions,
    name: str,
    origin: str,
    kinds: tuple[str, ...],
    days: int,
    document_version: int,
    output: str,
    force: bool,
) -> int:
    """Record the measurements of a machine that is known to be good, from its verified evidence.

    It takes every argument and option of 'attest verify', and its exit codes. That evidence is genuine says nothing
    about whether its measurements are wanted: --origin is for the person who answers for that.
    """
    from attest.cli.verification_inputs import verify_machine
    from attest.clock import this_second
    from attest.policy.reference_values.reference_documents import KIND_BYTES, make_reference_document
    from attest.policy.reference_values.reference_sources import references_from

    if unknown := set(kinds) - set(KIND_BYTES):
        raise click.UsageError(f"--kind {min(unknown)}: expected one of {', '.join(KIND_BYTES)}")
    at = question.at or this_second()
    verified = verify_machine(question, at=at)
    devices = [(item.name, item.verified) for item in verified.items]
    document = make_reference_document(
        name=name,
        version=document_version,
        origin=f"SIMULATED: {origin}" if verified.simulated else origin,
        issued=at,
        expires=at + timedelta(days=days),
        entries=references_from(devices, kinds=frozenset(kinds) or None),
    )
    return _write(document, output, force=force, display=question.display)


@references.command(
    short_help="List the RIMs that are accepted, by digest.",
    examples=("attest references from-rims rims/*.xml --name drivers --origin 'release of November' -o drivers.json",),
)
@click.argument("files", metavar="RIM...", nargs=-1, required=True)
@click.option("--name", metavar="NAME", required=True, help="Name of the document.")
@click.option("--origin", metavar="TEXT", required=True, help="Reason why these RIMs are accepted.")
@click.option("--at", "moment", type=utc, metavar="TIME", help="Moment at which they must be valid. Default: now.")
@click.option("--allow-simulated", is_flag=True, help="Accept RIMs of the simulator. The document states this.")
@_DAYS
@_VERSION
@_OUTPUT
@_FORCE
@display_options
def from_rims(
    *,
    files: tuple[str, ...],
    name: str,
    origin: str,
    moment: datetime | None,
    allow_simulated: bool,
    days: int,
    document_version: int,
    output: str,
    force: bool,
    display: Display,
) -> int:
    """Record the digests of NVIDIA's reference integrity manifests: XML, or the RIM service's JSON.

    Signature, signers and dates are verified; whether a signer was revoked is for 'attest verify'. Exit codes:
    0 written, 2 usage, 3 no RIM, 4 not signed by NVIDIA, 5 outside its dates.
    """
    from attest.cli.endorsement_inputs import read_anchors
    from attest.cli.files import read_inputs
    from attest.clock import this_second
    from attest.evidence.endorsement_files import MAX_FILE_BYTES
    from attest.policy.reference_values.reference_documents import make_reference_document
    from attest.policy.reference_values.reference_sources import references_from_rims

    at = moment or this_second()
    anchors = read_anchors(None, simulated=allow_simulated)
    inputs = read_inputs(files, limit=MAX_FILE_BYTES)
    verified = [rim for name, data in inputs for rim in _verified_rims(name, data, anchors, at=at)]
    simulated = any(rim.anchor.simulated for rim in verified)
    made = make_reference_document(
        name=name,
        version=document_version,
        origin=f"SIMULATED: {origin}" if simulated else origin,
        issued=at,
        expires=at + timedelta(days=days),
        entries=references_from_rims(verified),
    )
    return _write(made, output, force=force, display=display)


def _verified_rims(name: str, data: bytes, anchors: TrustAnchors, *, at: datetime) -> Iterator[VerifiedRim]:
    from attest.errors import EvidenceError
    from attest.evidence.endorsement_files import read_endorsements
    from attest.evidence.gpu.rim import VerifiedRim, find_signers, read_rim, require_window, verify_rim_signature

    found = read_endorsements([(name, data)], at=at).endorsements.rims
    if not found:
        raise EvidenceError(f"{name} is not a RIM", code="rim-malformed", expected="SWID XML, or the service's JSON")
    for document in found:
        parsed = read_rim(document)
        verify_rim_signature(parsed)
        signers, anchor = find_signers(parsed, anchors)
        begin, end = require_window(parsed, signers=signers, anchor=anchor, at=at)
        yield VerifiedRim(parsed=parsed, signers=signers, anchor=anchor, not_before=begin, not_after=end)


def _write(
    document: ReferenceDocument,
    output: str,
    *,
    force: bool,
    display: Display,
    left_out: Sequence[str] = (),
    signer: str | None = None,
) -> int:
    """Write a document; with ``--json`` to a file, print a description of it on standard output."""
    from attest.cli.files import write_text
    from attest.policy.reference_values.reference_documents import reference_json

    write_text(output, json.dumps(reference_json(document), indent=2) + "\n", force=force)
    if output == "-":
        return 0
    digest = document.digest.hex()
    if display.json:
        made: dict[str, JsonValue] = {"schema": MADE_SCHEMA, "file": output, "digest": digest, "left_out": [*left_out]}
        print_document(made if signer is None else {**made, "signer": signer})
    elif not display.quiet:
        names = "1 name" if len(document.entries) == 1 else f"{len(document.entries)} names"
        click.echo(f"{output}: {names}, sha256 {digest}")
    return 0


def _read(file: str) -> ReferenceDocument:
    from attest.cli.files import read_file
    from attest.policy.reference_values.reference_documents import MAX_REFERENCE_BYTES, read_reference_document

    return read_reference_document(read_file(file, limit=MAX_REFERENCE_BYTES, what="FILE"), name=file)


def _listed(document: ReferenceDocument, revoked: dict[bytes, str], at: datetime) -> dict[str, JsonValue]:
    from attest.encoding import rfc3339_text
    from attest.policy.decoder import RelaxedDemand

    end = document.expires.value
    withdrawn: dict[str, JsonValue] = {one.value.hex(): one.reason for one in document.revoked}
    return {
        "name": document.name,
        "version": document.version,
        "digest": document.digest.hex(),
        "origin": document.origin,
        "issued": rfc3339_text(document.issued),
        "expires": f"never: {end.reason}" if isinstance(end, RelaxedDemand) else rfc3339_text(end),
        "state": str(document.state(at)),
        "values": {
            name: _entry(entry, document.end_of(entry), revoked, at) for name, entry in document.entries.items()
        },
        **({"revoked": withdrawn} if withdrawn else {}),
    }


def _entry(
    entry: ReferenceEntry, last: datetime | None, revoked: dict[bytes, str], at: datetime
) -> dict[str, JsonValue]:
    from attest.encoding import rfc3339_text

    return {
        "kind": entry.kind,
        "state": "EXPIRED" if last is not None and at > last else "current",
        **({} if last is None else {"expires": rfc3339_text(last)}),
        **({} if entry.origin is None else {"origin": entry.origin}),
        "values": [
            value.hex() + (f"  REVOKED: {revoked[value]}" if value in revoked else "") for value in entry.values
        ],
    }


def _public_key(file: str) -> CoseKey:
    from attest.cli.files import MAX_KEY_BYTES, read_file
    from attest.errors import ConfigurationError
    from attest.policy.signing_keys import read_public_key

    pem = read_file(file, limit=MAX_KEY_BYTES, what="--key")
    try:
        return read_public_key(pem)
    except ConfigurationError as exc:
        raise ConfigurationError(
            f"{file} is not an Ed25519, P-256 or P-384 public key in PEM",
            code="references-key-invalid",
            hint="'openssl pkey -in key.pem -pubout' prints the public key of a private key",
        ) from exc
