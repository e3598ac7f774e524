"""``python -m rag_demo``: two owners, an operator and a confidential machine on this computer, simulated."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, get_args

import click

from attest.terminal import ExampleCommand, guarded, stopped_by_signals
from attest_simulator.machines import MachineKind
from rag_demo.demo.changes import Changes, viewer
from rag_demo.demo.narrator import Narrator
from rag_demo.demo.parties import DEFAULT_MODEL, NAME, Options, Stage, staged
from rag_demo.demo.story import ready, tell
from rag_demo.enclave.answers import LanguageModel

SCRIPT_LEASE_SECONDS: Final = 10
_LOOK_SECONDS: Final = 0.5
"""Interval at which ended programs are detected."""
_SIMULATED: Final = "SIMULATED: the machine and its GPUs are software, and their keys are public"


def main(arguments: Sequence[str]) -> int:
    """Run it, and return its exit code."""
    return guarded(lambda: demo(list(arguments), prog_name="python -m rag_demo", standalone_mode=False))


@click.command(
    cls=ExampleCommand,
    context_settings={"help_option_names": ["-h", "--help"]},
    examples=(
        "python -m rag_demo                    # starts everything, and waits; use it from another terminal",
        "python -m rag_demo --script           # runs the whole story in half a minute",
        "python -m rag_demo --script --json",
        "python -m rag_demo --machine tdx --gpus 2",
        "python -m rag_demo --llm http://127.0.0.1:8000/v1 --model small",
    ),
)
@click.option("--script", is_flag=True, help="Run the story step by step, and exit: 0 if every step succeeds.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document per line (schema rag.demo/1).")
@click.option("--machine", type=click.Choice(get_args(MachineKind)), default="snp", show_default=True)
@click.option("--gpus", type=click.IntRange(0, 4), default=1, show_default=True, help="Number of simulated GPUs.")
@click.option(
    "--lease-seconds",
    type=click.IntRange(5, 3600),
    help=f"Length of a lease, after which the machine attests again. Default: 60; {SCRIPT_LEASE_SECONDS} "
    "with --script.",
)
@click.option(
    "--llm",
    metavar="URL",
    help="Server on this computer that words the answers, by OpenAI's protocol. Default: quotations.",
)
@click.option("--model", "llm_model", metavar="NAME", help=f"Name of its model. Default: {DEFAULT_MODEL}.")
@click.option("--keep", is_flag=True, help="Keep the folders: keys, logs, recorded traffic.")
@click.option("--no-colour", "--no-color", is_flag=True, help="No colours. The same as NO_COLOR=1.")
def demo(
    *,
    script: bool,
    as_json: bool,
    machine: str,
    gpus: int,
    lease_seconds: int | None,
    llm: str | None,
    llm_model: str | None,
    keep: bool,
    no_colour: bool,
) -> int:
    """Two owners, one machine: a model and documents meet in an enclave whose operator sees neither.

    Three parties are made in a temporary folder, each with its own files: the model's owner and the documents' owner
    with a key-release service each, and the operator who runs the enclave. Nothing outside this computer is asked.

    Exit codes: 0 every step had the expected result, 1 something did not, 2 usage or something is missing, 130 stopped
    before its end, 141 the reader of the output closed it.
    """
    if llm is None and llm_model is not None:
        raise click.UsageError("--model needs --llm: the server that has the model")
    if llm is not None:
        LanguageModel(url=llm, model=llm_model or DEFAULT_MODEL)  # refuses an address that is not this computer's
    out = Narrator(sys.stdout, as_json=as_json, colour=not no_colour)
    lease = lease_seconds or (SCRIPT_LEASE_SECONDS if script else 60)
    out.warn(_SIMULATED)
    options = Options(
        machine=machine, gpus=gpus, lease_seconds=lease, keep=keep, llm=llm, llm_model=llm_model or DEFAULT_MODEL
    )
    with stopped_by_signals(), staged(options, report=out.tell) as stage:
        if keep:
            out.tell(f"folders: {stage.folder}")
        if script:
            tell(out, stage)
            return out.end()
        _serve(out, stage)
    return 0


def _serve(out: Narrator, stage: Stage) -> None:
    """Show the addresses and commands, and wait for an interrupt."""
    owner = stage.document_owner
    client = [
        f"{_near(Path(sys.executable))} -m rag_demo.client {stage.url}",
        f"  --service {NAME} --allow-simulated --offline",
        f"  --policy {owner / 'policy.json'}",
        f"  --endorsements {owner / 'vendors'}",
        f"  --token {owner / 'token'}",
    ]
    out.title("Three parties, each with its own folder")
    out.tell(f"the model's owner      {stage.model_owner}", folder=str(stage.model_owner))
    out.tell(f"the documents' owner   {stage.document_owner}", folder=str(stage.document_owner))
    out.tell(
        f"the operator           {stage.operator}   (enclave.log, documents.db, wire/)", folder=str(stage.operator)
    )
    with stage.client() as first:
        ready(out, stage, first)
    out.title("The service is ready")
    out.tell(f"it listens on {stage.url}; its name is {NAME}", url=stage.url, name=NAME)
    out.tell(f"open it in a browser: {stage.url}/   (the page checks it; the policy is {owner / 'policy.json'})")
    out.title("Use it, from another terminal")
    if out.as_json:
        out.tell("the whole command", command=" ".join(client))
    for part in () if out.as_json else [f"{one} \\" for one in client[:-1]] + client[-1:]:
        out.tell(part)
    changes = Changes(out=out, stage=stage, source=viewer())
    changes.show_menu()
    out.tell("")
    out.tell("Ctrl-C stops everything and " + ("keeps" if stage.options.keep else "removes") + " the folders")
    with suppress(KeyboardInterrupt):
        while True:
            for program in stage.programs.values():
                program.require_running()
            changes.wait(_LOOK_SECONDS)
    out.tell("ending")


def _near(program: Path) -> Path:
    """Return where a program is, as seen from here where that is shorter."""
    here = Path.cwd()
    return program.relative_to(here) if program.is_relative_to(here) else program
