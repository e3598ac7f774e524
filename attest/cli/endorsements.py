"""``attest endorsements``: vendors' endorsements, fetched and bundled."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import click

from attest.cli.documents import print_document
from attest.cli.option_values import utc
from attest.cli.options import Network, network_options
from attest.terminal.display import Display, display_options
from attest.terminal.lazy_commands import ExampleGroup

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from attest.encoding import JsonValue
    from attest.endorsements.bundle_records import BundleEntry, ParsedBundle, VerifiedBundle


@click.group(
    cls=ExampleGroup,
    examples=(
        "attest endorsements fetch report.bin -o report.endorsements   # where there is a network",
        "attest verify report.bin --endorsements report.endorsements --offline",
    ),
)
def endorsements() -> None:
    """Fetch a vendor's endorsements of a machine, and store them in one file.

    None of them is trusted: verification checks each certificate and list, regardless of its source.
    """


@endorsements.command(
    short_help="Fetch what evidence needs, as one offline bundle.",
    examples=(
        "attest endorsements fetch report.bin -o report.endorsements",
        "attest endorsements fetch *.bin -o site.endorsements --days 7 --sign-with bundle-key.pem",
        "attest endorsements fetch quote.bin -o quote.endorsements --pcs https://pccs.example:8081",
    ),
)
@click.argument("inputs", metavar="INPUT...", nargs=-1, required=True)
@click.option("-o", "--output", metavar="FILE", required=True, help="Bundle to write; '-' is standard output.")
@click.option("--force", is_flag=True, help="Replace an existing FILE.")
@click.option(
    "--days",
    type=click.IntRange(1, 366),
    default=30,
    show_default=True,
    help="Validity of the bundle; later revocations are not in it.",
)
@click.option("--sign-with", metavar="FILE", help="Sign the bundle with this Ed25519 private key (PEM).")
@network_options
@display_options
def fetch(
    *,
    inputs: tuple[str, ...],
    output: str,
    force: bool,
    days: int,
    sign_with: str | None,
    network: Network,
    display: Display,
) -> int:
    """Fetch everything that each INPUT needs, and write it as one offline bundle.

    Each INPUT is the evidence of one machine. Exit codes: 0 written, 2 usage, 3 malformed or unsupported evidence,
    4 a quote whose certificate is not Intel's, 5 something could not be fetched; nothing is written then.
    """
    from attest.cli.endorsement_fetch import fetch_missing
    from attest.cli.files import read_inputs, write_output
    from attest.cli.inspection import inspection
    from attest.clock import this_second
    from attest.endorsements.bundle import build_bundle, sign_bundle
    from attest.evidence.input_file import MAX_FILE_BYTES
    from attest.evidence.input_files import read_evidence

    if display.json and output == "-":
        raise click.UsageError("--json and -o - both use standard output")
    at = this_second()
    signer = None if sign_with is None else _private_key(sign_with)
    entries: list[BundleEntry] = []
    for file in read_inputs(inputs, limit=MAX_FILE_BYTES):
        evidence = read_evidence([file]).evidence
        gathered = fetch_missing(evidence, at=at, network=network, display=display)
        gathered.require()
        entries += gathered.entries
    bundle = build_bundle(entries, created=at, expires=at + timedelta(days=days))
    data = (bundle if signer is None else sign_bundle(bundle, signer)).to_bytes()
    write_output(output, data, force=force)
    if display.json:
        print_document(inspection([(output, data)]))
    elif not display.quiet and output != "-":
        click.echo(_summary(output, bundle))
    return 0


@endorsements.command(
    short_help="Show the content of bundles, certificates and lists.",
    examples=("attest endorsements show report.endorsements", "attest endorsements show ./certs/*.pem --json"),
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@display_options
def show(files: tuple[str, ...], display: Display) -> int:
    """Show the content of bundles, certificates, lists and tables: the same as 'attest inspect'."""
    from attest.cli.inspect import show_files

    return show_files(files, display=display)


@endorsements.command(
    short_help="Check that a bundle may be used.",
    examples=(
        "attest endorsements check report.endorsements --bundle-key site.pub",
        "attest endorsements check report.endorsements --at 2026-12-24T00:00:00Z",
    ),
)
@click.argument("file", metavar="FILE")
@click.option(
    "--bundle-key",
    "bundle_keys",
    metavar="FILE",
    multiple=True,
    help="The bundle must be signed by this key (PEM, Ed25519). Repeatable: one of them is enough.",
)
@click.option("--at", "moment", type=utc, metavar="TIME", help="Moment of use, RFC 3339. Default: now.")
@display_options
def check(file: str, bundle_keys: tuple[str, ...], moment: datetime | None, display: Display) -> int:
    """Check that a bundle is usable: its dates, and with --bundle-key its signature.

    'attest verify' checks the certificates and lists in it. Exit codes: 0 usable, 2 usage, 5 not usable.
    """
    from attest.cli.files import read_file
    from attest.cli.verification_inputs import read_bundle_keys
    from attest.clock import this_second
    from attest.encoding import rfc3339_text
    from attest.endorsements.bundle import verify_bundle
    from attest.endorsements.bundle_reader import parse_bundle
    from attest.endorsements.bundle_records import MAX_BUNDLE_BYTES

    at = moment or this_second()
    bundle = parse_bundle(read_file(file, limit=MAX_BUNDLE_BYTES, what="FILE"))
    verified = verify_bundle(bundle, at=at, keys=read_bundle_keys(bundle_keys))
    signed_by = [key_id.hex() for key_id in verified.signed_by]
    if display.json:
        print_document(_usable(verified, signed_by, at))
    elif not display.quiet:
        signed = f"signed by {', '.join(signed_by)}" if signed_by else "no signature was required"
        click.echo(f"valid until {rfc3339_text(verified.expires)}; {signed}")
    return 0


@endorsements.command(
    short_help="Serve bundles and the cache on the vendors' own paths.",
    examples=(
        "attest endorsements serve site.endorsements",
        "attest endorsements serve ./bundles/*.endorsements --bind 10.0.0.5 --port 8081",
        "attest endorsements serve --fetch --port 8081",
    ),
)
@click.argument("bundles", metavar="[BUNDLE...]", nargs=-1)
@click.option("--bind", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="IP address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8081, show_default=True, help="Port to listen on; 0 takes any."
)
@click.option("--fetch", is_flag=True, help="Fetch what is missing or out of date, and keep it in the cache.")
@network_options
@display_options
def serve(*, bundles: tuple[str, ...], bind: str, port: int, fetch: bool, network: Network, display: Display) -> int:
    """Serve the content of each BUNDLE and of the cache as the vendors' services do, read-only and without TLS.

    AMD's KDS: /vcek/v1/, /vlek/v1/. Intel's PCS version 4, as a PCCS: /sgx/certification/v4/, /tdx/certification/v4/.
    NVIDIA: /v1/rim/ and OCSP (POST /). Clients verify the vendors' signatures; nothing here is trusted. The options
    of services and --product apply with --fetch alone.
    """
    from attest.cli.endorsement_mirror import serve_mirror

    serve_mirror(bundles, bind=bind, port=port, fetch=fetch, network=network, display=display)
    return 0


def _usable(verified: VerifiedBundle, signed_by: list[str], at: datetime) -> dict[str, JsonValue]:
    from attest.encoding import rfc3339_text

    return {
        "schema": "attest.bundle-check/1",
        "outcome": "usable",
        "at": rfc3339_text(at),
        "created": rfc3339_text(verified.created),
        "expires": rfc3339_text(verified.expires),
        "signed_by": [*signed_by],
        "entries": len(verified.entries),
    }


def _summary(output: str, bundle: ParsedBundle) -> str:
    from attest.encoding import rfc3339_text

    kinds = ", ".join(f"{entry.kind} from {entry.source}" for entry in bundle.entries)
    return f"{output}: {kinds}; valid until {rfc3339_text(bundle.expires)}"


def _private_key(file: str) -> Ed25519PrivateKey:
    """Read the key that signs bundles; errors show nothing of the file."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from attest.cli.files import MAX_KEY_BYTES, read_file
    from attest.errors import ConfigurationError
    from attest.policy.signing_keys import read_private_key

    pem = read_file(file, limit=MAX_KEY_BYTES, what="--sign-with", secret=True)
    try:
        key = read_private_key(pem)
    except ConfigurationError:
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigurationError(
            f"{file} is not an Ed25519 private key in PEM without a password",
            code="bundle-key-invalid",
            hint="make one with 'openssl genpkey -algorithm ed25519 -out bundle-key.pem'",
        )
    return key
