"""``python -m rag_demo.enclave --config FILE``: the service, until SIGTERM."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, get_args

import click

from attest.errors import AttestError
from attest.page import page_files
from rag_demo.enclave.service.assembly import RagService
from rag_demo.enclave.service.composition import bench_of
from rag_demo.enclave.service.config import load_config
from rag_demo.enclave.service.process import listen, prepare, serve
from rag_demo.enclave.service.settings import EnclaveSettings, SimulatedKind

_SIMULATED: Final = "SIMULATED: the evidence of this machine comes from the simulator and proves nothing about hardware"


def main(arguments: Sequence[str]) -> int:
    """Serve until SIGTERM, and return the exit code."""
    serving(list(arguments), prog_name="python -m rag_demo.enclave")
    return 0


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--config", "file", required=True, type=click.Path(path_type=Path), help="The service's settings (TOML).")
@click.option("--host", help="Address to listen on, instead of listen.host.")
@click.option("--port", type=click.IntRange(0, 65535), help="Port, instead of listen.port; 0: any free port.")
@click.option(
    "--simulate", type=click.Choice(get_args(SimulatedKind)), help="Attest a simulated machine instead of this one."
)
@click.option("--gpus", type=click.IntRange(0, 8), help="GPUs of the simulated machine.")
@click.option("--prompt-key", help="Channel key that the database key's service releases to every replica.")
@click.option("--llm", help="Server inside the TEE that words answers, by OpenAI's protocol.")
def serving(  # noqa: PLR0917  click hands over one for each option
    file: Path,
    host: str | None,
    port: int | None,
    simulate: str | None,
    gpus: int | None,
    prompt_key: str | None,
    llm: str | None,
) -> None:
    """Serve documents and questions over the encrypted channel.

    \b
    Examples:
      python -m rag_demo.enclave --config enclave.toml
      python -m rag_demo.enclave --config enclave.toml --simulate tdx --gpus 2 --port 0
    """  # noqa: D301  click's own mark
    changes: dict[str, object] = {
        "listen.host": host,
        "listen.port": port,
        "machine.simulate": simulate,
        "machine.gpus": gpus,
        "prompt_key.name": prompt_key,
        "llm.url": llm,
    }
    try:
        prepare()
        settings = load_config(file, changes=changes)
        _serve(settings)
    except AttestError as exc:
        click.echo(f"error: {exc.message} [{exc.code}]", err=True)
        if exc.hint:
            click.echo(f"hint: {exc.hint}", err=True)
        sys.exit(exc.exit_code)


def _serve(settings: EnclaveSettings) -> None:
    service = RagService(settings, open_bench=bench_of(settings), pages=page_files())
    sock = listen(settings.host, settings.port)
    host, port = sock.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host

    def announce() -> None:
        if settings.simulated:
            click.echo(_SIMULATED)
        click.echo(f"name: {settings.name}")
        click.echo(f"listening: http://{shown}:{port}")
        sys.stdout.flush()

    serve(service, sock, ready=announce)
