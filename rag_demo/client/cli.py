"""``python -m rag_demo.client URL --policy FILE``: a chat; and one question, one upload, one check for scripts.

Exit codes: 0 done, and the machine is affirmed · 1 the machine does not meet the policy, or the service refused ·
2 usage, settings or files · 3 what came is malformed · 4 what came does not hold · 5 nothing answered, or endorsements
are missing · 70 our bug · 130 interrupted · 141 the reader of the output closed it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import timedelta
from functools import wraps
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import click

from attest.clock import system_clock
from attest.encoding import JsonValue, rfc3339_text
from attest.errors import AttestError
from attest.terminal import ExampleCommand, ExampleGroup, ReaderGoneError, guarded
from rag_demo.client.answers import Document, Passage
from rag_demo.client.chat import Chat
from rag_demo.client.client import RagClient, checked_url
from rag_demo.client.demands import RECORD_SECONDS, read_demands
from rag_demo.client.screen import Screen
from rag_demo.client.token import default_token_file, token_in
from rag_demo.client.trust import SentTo

_COMMANDS: Final = ("ask", "chat", "check", "delete", "documents", "upload")
_Command = Callable[..., Any]  # Any: a command takes what its options give


def main(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; without the name of one it is the chat."""
    words = list(arguments)
    if words and words[0] not in {*_COMMANDS, "-h", "--help"} and (words[0][:1] == "-" or set(words[0]) & set(":./")):
        words.insert(0, "chat")  # an address, or an option; any other word is a misspelt command
    return guarded(lambda: cli(words, prog_name="python -m rag_demo.client", standalone_mode=False))


def _connected(command: _Command) -> _Command:
    """Give a command the options that name the service, and pass it the client and the screen."""

    @wraps(command)
    def with_client(**given: Any) -> object:  # noqa: ANN401  what click read
        at = system_clock()
        demands = read_demands(
            audience=given.pop("service") or urlsplit(checked_url(given["url"])).hostname or "",
            policy=given.pop("policy"),
            endorsements=given.pop("endorsements"),
            anchors=given.pop("anchors"),
            allow_simulated=given.pop("allow_simulated"),
            offline=given.pop("offline"),
            max_age=timedelta(seconds=given.pop("record_seconds")),
            at=at,
        )
        token = token_in(given.pop("token") or default_token_file(os.environ), random=os.urandom)
        screen = Screen(sys.stdout, colour=not given.pop("no_colour"))
        with RagClient(given.pop("url"), demands=demands, token=token, tls_ca=given.pop("tls_ca")) as client:
            return command(client=client, screen=screen, **given)

    for option in reversed(_OPTIONS):
        with_client = option(with_client)
    return with_client


_PATH = click.Path(path_type=Path)
_OPTIONS: Final = (
    click.argument("url", metavar="URL"),
    click.option(
        "--policy", type=_PATH, required=True, help="Policy that the machine must meet before anything is sent."
    ),
    click.option("--service", metavar="NAME", help="The service's name in its evidence. Default: the host of URL."),
    click.option("--endorsements", type=_PATH, multiple=True, help="Vendors' endorsements of the machine. Repeatable."),
    click.option("--anchors", type=_PATH, help="Add and remove trust anchors (TOML)."),
    click.option(
        "--allow-simulated", is_flag=True, help="Also accept a simulated machine, which proves nothing about hardware."
    ),
    click.option("--offline", is_flag=True, help="Fetch no endorsements of the machine."),
    click.option("--token", type=_PATH, help="Your token, created if missing: it gives access to your documents."),
    click.option("--tls-ca", type=_PATH, help="CA of the TLS certificate (PEM)."),
    click.option(
        "--record-seconds",
        type=click.FloatRange(1, RECORD_SECONDS),
        default=RECORD_SECONDS,
        show_default=True,
        help="Validity of a verified result.",
    ),
    click.option("--no-colour", "--no-color", is_flag=True, help="No colours. The same as NO_COLOR=1."),
)
_json_option = click.option("--json", "as_json", is_flag=True, help="Print only one JSON document.")


@click.group(
    cls=ExampleGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    examples=(
        "python -m rag_demo.client https://rag.example --policy policy.yaml               # a conversation",
        "python -m rag_demo.client upload https://rag.example contract.pdf --policy policy.yaml",
        'python -m rag_demo.client ask https://rag.example "When does it end?" --policy policy.yaml --json',
    ),
)
def cli() -> None:
    """Ask a confidential service about your documents. Nothing is sent to a machine that does not meet your policy."""


def _command(arguments: str) -> Callable[[_Command], click.Command]:
    """Make a command with a client and a screen, and with one example."""
    example = f"python -m rag_demo.client {arguments} --policy policy.yaml"
    return lambda command: cli.command(cls=ExampleCommand, examples=(example,))(_connected(command))


@_command("https://rag.example")
def chat(*, client: RagClient, screen: Screen) -> int:
    """Talk to it: this is what runs where no command is named."""
    seconds = max(1.0, client.demands.max_age.total_seconds() / 2)
    Chat(client, screen, sys.stdin, watch_seconds=seconds).run()
    return 0


@_command("check https://rag.example")
@_json_option
def check(*, client: RagClient, screen: Screen, as_json: bool) -> int:
    """Verify the machine, and show the service's state."""
    try:
        state = client.check()
    except AttestError as exc:
        if not as_json:
            screen.headline(client.standing)
            for one in exc.checks:
                screen.check(one)
        raise
    if as_json:
        return _print("rag.client.check/1", client, state=state.state, why=state.why, answers=state.answers)
    screen.standing(client.standing)
    screen.line(f"  the service is {state.state}" + (f": {state.why}" if state.why else ""))
    return 0


@_command('ask https://rag.example "When does it end?"')
@click.argument("question")
@_json_option
def ask(*, client: RagClient, screen: Screen, question: str, as_json: bool) -> int:
    """Ask one question."""
    with client.ask(question) as asking:
        passages = {reply.number: reply for reply in asking if isinstance(reply, Passage)}
        answer = asking.answer
    if as_json:
        return _print(
            "rag.client.answer/1",
            client,
            **asdict(answer),
            passages=[asdict(one) for one in passages.values()],
            sent_to=_sent_to(asking.sent_to),
        )
    screen.headline(client.standing)
    screen.answer(answer)
    screen.line(f"  (sealed to {asking.sent_to})", "dim")
    return 0


@_command("upload https://rag.example contract.pdf")
@click.argument("file", type=_PATH)
@click.option("--name", help="Name of the document. Default: the name of its file.")
@_json_option
def upload(*, client: RagClient, screen: Screen, file: Path, name: str | None, as_json: bool) -> int:
    """Seal one document, and send it."""
    stored = client.upload(file, name=name, progress=None if as_json else screen.progress)
    if as_json:
        return _print(
            "rag.client.upload/1", client, document=_document(stored.document), sent_to=_sent_to(stored.sent_to)
        )
    one = stored.document
    screen.line(f"stored {one.name}: {one.pages} pages, {one.passages} passages, id {one.id}")
    screen.line(f"  (sealed to {stored.sent_to})", "dim")
    return 0


@_command("documents https://rag.example")
@_json_option
def documents(*, client: RagClient, screen: Screen, as_json: bool) -> int:
    """List your documents."""
    found = client.documents()
    if as_json:
        return _print("rag.client.documents/1", client, documents=[_document(one) for one in found])
    screen.documents(found)
    return 0


@_command("delete https://rag.example all")
@click.argument("document", metavar="ID|all")
@_json_option
def delete(*, client: RagClient, screen: Screen, document: str, as_json: bool) -> int:
    """Delete a document by its id, or all of yours."""
    if document == "all":
        client.delete_all()
    else:
        client.delete(document)
    if as_json:
        return _print("rag.client.delete/1", client, deleted=document)
    screen.line("deleted")
    return 0


# -- for programs


def _print(schema: str, client: RagClient, **members: JsonValue) -> int:
    """Print one document, with the machine's standing."""
    standing = client.standing
    machine: dict[str, JsonValue] = {"affirmed": standing.affirmed, "simulated": standing.simulated}
    if standing.result is not None:
        policy = standing.result.policy
        machine |= {"policy": policy.name, "policy_version": policy.version, "policy_digest": policy.digest.hex()}
    if standing.sent_to is not None:
        machine["key"] = _sent_to(standing.sent_to)
    if standing.expires is not None:
        machine["expires"] = rfc3339_text(standing.expires.replace(microsecond=0))
    try:
        click.echo(json.dumps({"schema": schema, **members, "machine": machine}))
    except BrokenPipeError as exc:  # as the screen does
        raise ReaderGoneError from exc
    return 0


def _sent_to(sent_to: SentTo) -> dict[str, JsonValue]:
    return {"key_id": sent_to.key_id, "digest": sent_to.digest.hex()}


def _document(document: Document) -> dict[str, JsonValue]:
    return {**asdict(document), "added": rfc3339_text(document.added)}
