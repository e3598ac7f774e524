"""``attest keyprovider``: wraps and unwraps the keys of encrypted container images, as ocicrypt asks for it."""

from __future__ import annotations

import os
import secrets
import sys
from typing import TYPE_CHECKING

import click

from attest.terminal.display import Display, display_options
from attest.terminal.lazy_commands import ExampleCommand

if TYPE_CHECKING:
    from attest.release.names import KeyReference

_DEFAULT_PROVIDER = "attest"


@click.command(
    cls=ExampleCommand,
    short_help="Wrap and unwrap keys of encrypted container images (ocicrypt).",
    examples=(
        "attest keyprovider --socket /run/attest/agent.sock < request.json   # ocicrypt starts it",
        "attest keyprovider --key acme/images@1=images.key < request.json    # where images are encrypted",
    ),
)
@click.option("--socket", "path", metavar="PATH", help="Path of the agent's socket, which gives the keys.")
@click.option("--uid", type=click.IntRange(0), metavar="N", help="The user that the agent runs as. Default: this user.")
@click.option(
    "--key", "files", metavar="KEY=FILE", multiple=True, help="A key in a file, for the owner of images. Repeatable."
)
@click.option(
    "--provider",
    default=_DEFAULT_PROVIDER,
    metavar="NAME",
    help="Name of this provider in ocicrypt's configuration.",
    show_default=True,
)
@display_options
def keyprovider(path: str | None, uid: int | None, files: tuple[str, ...], provider: str, display: Display) -> int:
    """Answer one request of ocicrypt: JSON on standard input, JSON on standard output.

    containerd, CRI-O, Podman, Buildah and Skopeo start this command for each layer of an encrypted image. The key comes
    from the agent, under its lease, or from a file of the image's owner. Exit codes: 0 answered, 1 the agent refuses
    the key, 2 usage or a key of another length, 3 malformed request, 4 another program listens at the socket, or the
    layer was wrapped under another key, 5 no agent answers. Nothing is written to standard output then.
    """
    del display
    from attest.agent.image_keys import IV_BYTES, MAX_MESSAGE_BYTES, WrapRequest, parse_request, unwrapped, wrapped

    if (path is None) is not bool(files):
        raise click.UsageError("name either --socket or --key")
    request = parse_request(sys.stdin.buffer.read(MAX_MESSAGE_BYTES + 1), provider=provider)
    key = _key(request.key, path=path, uid=os.geteuid() if uid is None else uid, files=files)
    if isinstance(request, WrapRequest):
        answer = wrapped(request, key=key, iv=secrets.token_bytes(IV_BYTES))
    else:
        answer = unwrapped(request, key=key)
    sys.stdout.buffer.write(answer)
    sys.stdout.buffer.flush()
    return 0


def _key(reference: KeyReference, *, path: str | None, uid: int, files: tuple[str, ...]) -> bytes:
    if path is not None:
        from attest.agent.client import AgentClient

        with AgentClient(path, uid=uid) as agent:
            return agent.key(str(reference))
    return _key_of_file(reference, files)


def _key_of_file(reference: KeyReference, files: tuple[str, ...]) -> bytes:
    from attest.agent.image_keys import KEY_BYTES
    from attest.cli.files import read_file
    from attest.errors import ConfigurationError
    from attest.release.names import KeyReference

    found: dict[KeyReference, str] = {}
    for one in files:
        name, equals, file = one.partition("=")
        if not equals or not file:
            raise click.UsageError(f"--key {one!r} is not KEY=FILE")
        found[KeyReference.parse(name)] = file
    if reference not in found:
        raise ConfigurationError(
            f"no --key names {reference}, which the request asks for",
            code="image-key-unknown",
            field="--key",
            expected=", ".join(map(str, found)),
            got=str(reference),
            hint=f"--key {reference}=FILE",
        )
    return read_file(found[reference], limit=KEY_BYTES, what="--key", secret=True)
