"""``attest agent``: one container of a pod attests, and serves keys and unsealed files to the others."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from attest.cli.documents import show_document
from attest.cli.session_options import SessionOptions, service_options, settings_document
from attest.terminal.display import Display, display_options
from attest.terminal.lazy_commands import ExampleCommand

if TYPE_CHECKING:
    from logging import Logger

    from attest.agent.cdh_config import CdhConfig
    from attest.agent.config import AgentConfig
    from attest.agent.files_config import RenderedFile
    from attest.agent.peers import PeerRule
    from attest.agent.systemd_config import SystemdConfig
    from attest.encoding import JsonValue

DRY_RUN_SCHEMA = "attest.agent-config/1"


@click.command(
    cls=ExampleCommand,
    short_help="Serve keys and unsealed files to containers of the same pod.",
    examples=(
        "attest agent --socket /run/attest/agent.sock --rules agent.toml",
        "attest agent --rules agent.toml --dry-run          # show which peer gets what",
        "attest agent --socket /run/attest/agent.sock --check",
        "curl --unix-socket /run/attest/agent.sock http://agent/v1/keys/llama-70b --output /dev/shm/llama.key",
    ),
)
@click.option("--socket", "path", metavar="PATH", help="Path of the socket, in an existing directory.")
@click.option("--rules", metavar="FILE", help="The rules: which peer gets what (TOML).")
@click.option("--check", is_flag=True, help="Check the health of the running agent, as its own user.")
@click.option("--dry-run", is_flag=True, help="Show which peer would get what; no request, no socket.")
@service_options
@display_options
def agent(  # noqa: PLR0917  click passes them by name
    path: str | None,
    rules: str | None,
    check: bool,
    dry_run: bool,
    service: SessionOptions,
    display: Display,
) -> int:
    """Attest this machine, hold its keys, and serve them and files of sealed models to the peers that FILE names.

    The kernel identifies each peer by user and group; a peer without a rule is refused. When a lease is lost, the agent
    stops serving its key and the files that the key unseals, and aborts answers in progress. FILE may also name files
    to render from secrets, and a program to run while they exist: the exit code is the program's. Runs until SIGTERM or
    SIGINT; its log goes to standard error, one JSON document a line. With --check: 0 healthy, 1 not healthy yet or no
    answer, 4 another program listens there, 5 no program listens.
    """
    from attest.agent.config import load_config

    if check:
        return _check(_required(path, "--socket"), display=display)

    config = load_config(Path(_required(rules, "--rules")))
    if dry_run:
        _show(config, service, display=display)
        return 0
    return _serve(config, Path(_required(path, "--socket")), service, display=display)


def _required(value: str | None, option: str) -> str:
    if value is None:
        raise click.UsageError(f"missing option {option!r}")
    return value


def _serve(config: AgentConfig, path: Path, service: SessionOptions, *, display: Display) -> int:
    import signal
    from contextlib import ExitStack, closing
    from functools import partial

    from attest.agent.cdh import listen_for_cdh
    from attest.agent.config import SocketConfig
    from attest.agent.server import Agent
    from attest.agent.unix_socket import AgentSocket
    from attest.cli.machine import machine_of
    from attest.collect.machine import collect_machine
    from attest.terminal.signals import handled_signals

    settings = service.settings()
    log = _log(config, display)
    with (
        closing(Agent(config)) as serving,
        AgentSocket(path, config.socket) as place,
        service.session(display=display, on_lost=serving.lost, on_renewed=serving.renewed) as session,
        ExitStack() as more,
        handled_signals(lambda *_: serving.stop(), signal.SIGINT, signal.SIGTERM),
    ):
        cdh = None if config.cdh is None else more.enter_context(listen_for_cdh(config.cdh))
        systemd = None if config.systemd is None else AgentSocket(config.systemd.socket, SocketConfig())
        if systemd is not None:
            more.enter_context(systemd)
        serving.serve(
            place.sock,
            session,
            service=settings.service,
            ready=partial(log.info, "listening at %s", place.path),
            cdh=cdh,
            credentials=None if systemd is None else systemd.sock,
            collecting=partial(collect_machine, access=machine_of(settings.tcti), with_gpus=False),
        )
    log.info("ended")
    return serving.exit_code


def _log(config: AgentConfig, display: Display) -> Logger:
    """Set up the log, and begin it with what is unprotected."""
    import logging

    from attest.agent.logs import set_up_logs
    from attest.hardening import harden

    set_up_logs(level=logging.DEBUG if display.verbose else logging.WARNING if display.quiet else logging.INFO)
    log = logging.getLogger("attest.agent")
    if not harden():
        log.warning("this system does not keep other processes of the same user out of this one's memory")
    if config.socket.unchecked_directory is not None:
        log.warning("the directory of the socket is unchecked: %s", config.socket.unchecked_directory)
    if config.cdh is not None:
        text = "every program that reaches port %d of this loopback gets the keys of [cdh.resources]: %s"
        log.warning(text, config.cdh.port, config.cdh.anyone_here)
        if config.cdh.evidence is not None:
            log.warning("each of them gets evidence with report data of its choice: %s", config.cdh.evidence)
    for one in config.files:
        for what, reason in (("folder", one.unchecked_folder), ("disk", one.unchecked_disk)):
            if reason is not None:
                log.warning("the %s of %s is unchecked: %s", what, one.path, reason)
    return log


def _check(path: str, *, display: Display) -> int:
    """Return the health of the agent, which it reports only to its own user."""
    from attest.agent.client import AgentClient

    with AgentClient(path, uid=os.geteuid(), timeout=5.0) as client:
        document = client.health()
    show_document(document, display=display, tree=document)
    return 0 if isinstance(document, dict) and document.get("status") == "ok" else 1


def _show(config: AgentConfig, service: SessionOptions, *, display: Display) -> None:
    models: JsonValue = {
        one.name: {"place": one.place, "peers": [_peer(rule) for rule in one.peers]} for one in config.models
    }
    document: JsonValue = {
        "schema": DRY_RUN_SCHEMA,
        "keys": {str(one.reference): [_peer(rule) for rule in one.peers] for one in config.keys},
        "models": models,
        "files": {one.name: _file(one) for one in config.files},
        "program": None if config.program is None else list(config.program.command),
        "cdh": _cdh(config.cdh),
        "systemd": _systemd(config.systemd),
        "socket": {"mode": f"{config.socket.mode:04o}", "group": config.socket.group},
        "settings": settings_document(service.settings()),
    }
    show_document(document, display=display)


def _cdh(config: CdhConfig | None) -> JsonValue:
    if config is None:
        return None
    resources: JsonValue = {name: str(reference) for name, reference in config.resources.items()}
    return {"port": config.port, "anyone_here": config.anyone_here, "evidence": config.evidence, "resources": resources}


def _systemd(config: SystemdConfig | None) -> JsonValue:
    if config is None:
        return None
    units: JsonValue = {
        unit: {name: str(reference) for name, reference in found.items()} for unit, found in config.units.items()
    }
    volumes: JsonValue = {name: str(reference) for name, reference in config.volumes.items()}
    return {"socket": str(config.socket), "units": units, "volumes": volumes}


def _file(one: RenderedFile) -> JsonValue:
    secrets: JsonValue = [str(reference) for reference in one.secrets]
    return {"path": str(one.path), "secrets": secrets, "mode": f"{one.mode:04o}", "template": one.template is not None}


def _peer(rule: PeerRule) -> JsonValue:
    known = {"name": rule.name, "uid": rule.uid, "gid": rule.gid}
    return {name: value for name, value in known.items() if value is not None}
