"""``attest references verify``: a document of reference values with the provenance of its build."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from attest.cli.documents import print_document
from attest.cli.option_values import utc
from attest.terminal.display import Display, display_options
from attest.terminal.lazy_commands import ExampleCommand

if TYPE_CHECKING:
    from datetime import datetime

    from attest.encoding import JsonValue
    from attest.policy.reference_values.reference_documents import ReferenceDocument
    from attest.provenance import VerifiedProvenance

SCHEMA = "attest.references-provenance/1"
_NOT_STATED = "not stated"


@click.command(
    cls=ExampleCommand,
    short_help="Verify who built a document, and from what.",
    examples=(
        "attest references verify fleet.json --provenance build.json --trusted-root root.json --identity me --issuer x",
    ),
)
@click.argument("file", metavar="FILE")
@click.option(
    "--provenance",
    metavar="BUNDLE",
    required=True,
    help="Sigstore bundle with SLSA provenance whose one subject is FILE.",
)
@click.option(
    "--trusted-root",
    metavar="JSON",
    required=True,
    help="Certificate authorities and logs of the Sigstore instance, its trusted_root.json. Nothing is fetched.",
)
@click.option(
    "--identity",
    metavar="NAME",
    required=True,
    help="Workflow or person that must have signed: the whole name in the certificate.",
)
@click.option("--issuer", metavar="URL", required=True, help="Issuer of that identity: the whole name.")
@click.option("--at", "moment", type=utc, metavar="TIME", help="Moment of use, RFC 3339. Default: now.")
@display_options
def verify(
    *,
    file: str,
    provenance: str,
    trusted_root: str,
    identity: str,
    issuer: str,
    moment: datetime | None,
    display: Display,
) -> int:
    """Verify who built a document of reference values, from which sources, and where a public log has it.

    The certificate of the signer, the signature and the entry of the log are verified at the time of the log. The
    subject must be the SHA-256 of FILE, byte for byte. A policy accepts the document as before, by digest or signer.

    Exit codes: 0 verified, 2 usage, or FILE or the trusted root cannot be read, 3 the bundle is malformed or of an
    unsupported kind, 4 it does not hold, or is for another document or signer, 5 the trusted root was not valid then.
    """
    from hashlib import sha256

    from attest.cli.files import STDIN, read_file
    from attest.clock import this_second
    from attest.errors import ConfigurationError
    from attest.policy.reference_values.reference_documents import MAX_REFERENCE_BYTES, read_reference_document
    from attest.provenance import MAX_BUNDLE_BYTES, MAX_TRUSTED_ROOT_BYTES, verify_provenance

    if (file, provenance, trusted_root).count(STDIN) > 1:
        raise ConfigurationError("standard input can be read once", code="stdin-twice", hint="give '-' once")
    data = read_file(file, limit=MAX_REFERENCE_BYTES, what="FILE")
    document = read_reference_document(data, name=file)
    verified = verify_provenance(
        read_file(provenance, limit=MAX_BUNDLE_BYTES, what="--provenance"),
        subject=sha256(data).digest(),
        trusted_root=read_file(trusted_root, limit=MAX_TRUSTED_ROOT_BYTES, what="--trusted-root"),
        identity=identity,
        issuer=issuer,
    )
    found = {**_document(document, moment or this_second()), **_provenance(verified)}
    if display.json:
        print_document({"schema": SCHEMA, "file": file, **found})
    elif not display.quiet:
        from attest.cli.json_tree import print_tree

        shown = {name: _NOT_STATED if value is None else value for name, value in found.items()}
        print_tree({"file": file, **shown}, display=display)
    return 0


def _document(document: ReferenceDocument, at: datetime) -> dict[str, JsonValue]:
    return {
        "name": document.name,
        "version": document.version,
        "digest": document.digest.hex(),
        "state": str(document.state(at)),
    }


def _provenance(verified: VerifiedProvenance) -> dict[str, JsonValue]:
    from attest.encoding import rfc3339_text

    stated, entry = verified.provenance, verified.entry
    return {
        "subject": stated.subject.hex(),
        "release": stated.release,
        "repository": stated.repository,
        "commit": stated.commit,
        "builder": stated.builder,
        "predicate_type": stated.predicate_type,
        "identity": verified.identity,
        "issuer": verified.issuer,
        "log_entry": {"log": entry.log.hex(), "index": entry.index, "time": rfc3339_text(entry.time)},
    }
