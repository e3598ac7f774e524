"""``kms tls``: certificates for services and their administrators, from an authority of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kms.cli.options import AS_JSON, moment, print_json, say

if TYPE_CHECKING:
    from cryptography import x509

    from kms.config.tls.authority import Curve

__all__ = ["tls"]


@click.group()
def tls() -> None:
    """Make certificates for TLS, and look at them.

    \b
    Examples:
      kms tls init-ca ca --permit-dns kms.example --permit-ip 127.0.0.1
      kms tls issue ca --dns kms.example --ip 127.0.0.1 --certificate tls.pem --key tls.key
      kms tls issue ca --client alice --certificate alice.pem --key alice.key
      kms tls show tls.pem
    """  # noqa: D301  \b is click's mark for text that is not wrapped


@tls.command("init-ca")
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
@click.option("--name", default="kms local CA", show_default=True, help="What the authority is called.")
@click.option(
    "--permit-dns", multiple=True, metavar="NAME", help="It may vouch for NAME and what is below. Repeatable."
)
@click.option("--permit-ip", multiple=True, metavar="NETWORK", help="It may vouch for these addresses. Repeatable.")
@click.option(
    "--curve", type=click.Choice(["P-256", "P-384"]), default="P-384", show_default=True, help="Its kind of key."
)
@click.option("--days", type=int, default=3650, show_default=True, help="How long it counts.")
@AS_JSON
def init_ca(
    directory: Path,
    *,
    name: str,
    permit_dns: tuple[str, ...],
    permit_ip: tuple[str, ...],
    curve: Curve,
    days: int,
    as_json: bool,
) -> None:
    """Make a certificate authority in DIRECTORY: ca.pem for the clients, ca.key for nobody.

    It vouches for the names and addresses that are permitted here, and its certificate says so. Keep the directory
    away from the service: whoever has ca.key can stand in for it on the network, though not sign for it.
    """
    from kms.config.tls.authority import CA_CERTIFICATE, init_authority

    made = init_authority(directory, name=name, dns=permit_dns, ips=permit_ip, curve=curve, days=days, at=moment())
    _show((made,), as_json=as_json, more={"certificate_file": str(directory / CA_CERTIFICATE)})
    say("note: clients get ca.pem; ca.key stays where it is")


@tls.command()
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
@click.option("--dns", multiple=True, metavar="NAME", help="Host name of the server. Repeatable.")
@click.option("--ip", "ips", multiple=True, metavar="ADDRESS", help="Address of the server. Repeatable.")
@click.option("--client", metavar="NAME", help="Make a client's certificate, for a person or program of this name.")
@click.option("--days", type=int, default=90, show_default=True, help="How long it counts, at most 398.")
@click.option(
    "--certificate", "certificate_file", required=True, type=click.Path(path_type=Path), help="Where it is written."
)
@click.option("--key", "key_file", required=True, type=click.Path(path_type=Path), help="Where its key is written.")
@click.option("--renew", is_flag=True, help="Keep the key that is there, and replace the certificate.")
@AS_JSON
def issue(
    directory: Path,
    *,
    dns: tuple[str, ...],
    ips: tuple[str, ...],
    client: str | None,
    days: int,
    certificate_file: Path,
    key_file: Path,
    renew: bool,
    as_json: bool,
) -> None:
    """Make a certificate and its key under the authority in DIRECTORY, for a server or for a client."""
    from kms.config.tls.authority import Order, open_authority

    at = moment()
    order = Order(dns=dns, ips=ips, client=client, days=days)
    authority = open_authority(directory, at=at)
    made = authority.issue(order, certificate_file=certificate_file, key_file=key_file, renew=renew, at=at)
    more = {"certificate_file": str(certificate_file), "key_file": str(key_file)}
    _show((made.certificate,), as_json=as_json, more=more)


@tls.command()
@click.argument("file", type=click.Path(path_type=Path))
@AS_JSON
def show(file: Path, *, as_json: bool) -> None:
    """Say what the certificates in FILE are. Nothing is verified."""
    from kms.config.tls.material import parse_certificates, read_certificates

    _show(parse_certificates(read_certificates(file), file=file), as_json=as_json, more={})


def _show(certificates: tuple[x509.Certificate, ...], *, as_json: bool, more: dict[str, str]) -> None:
    from kms.config.tls.describing import describe

    rows = [describe(one) for one in certificates]
    if as_json:
        print_json({"schema": "kms.config.tls/1", "certificates": rows, **more})
        return
    for row in rows:
        for name, value in row.items():
            click.echo(f"{name + ':':16} {_text(value)}")
    for name, text in more.items():
        click.echo(f"{name + ':':16} {text}")


def _text(value: Any) -> str:  # noqa: ANN401  a value of JSON
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
