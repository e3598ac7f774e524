"""``attest``: the root command. Commands import heavy modules when they run."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from attest import __version__
from attest.terminal.boundary import ReaderGoneError, guarded
from attest.terminal.lazy_commands import LazyEntry, LazyGroup

_COMMANDS = {
    "verify": LazyEntry("attest.cli.verify:verify", "Verify that evidence is genuine."),
    "appraise": LazyEntry("attest.cli.appraise:appraise", "Appraise evidence: verify it, and apply a policy."),
    "collect": LazyEntry("attest.cli.collect:collect", "Collect evidence of this machine and its NVIDIA GPUs."),
    "release": LazyEntry("attest.cli.release:release", "Get this machine's keys from a key-release service."),
    "seal": LazyEntry("attest.cli.seal:seal", "Encrypt and sign a model, so that any storage can hold it."),
    "unseal": LazyEntry("attest.cli.seal:unseal", "Verify and decrypt a sealed model into memory."),
    "sealed": LazyEntry("attest.cli.sealed:sealed", "Show, verify, read and rewrap sealed models; make their keys."),
    "receipt": LazyEntry("attest.cli.receipt:receipt", "Check receipts for answers: which model, in which machine."),
    "key": LazyEntry("attest.cli.key:key", "Get a key for this machine, with the settings of its image."),
    "run": LazyEntry("attest.cli.run:run", "Start a program with keys as inherited descriptors."),
    "agent": LazyEntry("attest.cli.agent:agent", "Serve keys and unsealed files to containers of the same pod."),
    "keyprovider": LazyEntry(
        "attest.cli.keyprovider:keyprovider", "Wrap and unwrap keys of encrypted container images (ocicrypt)."
    ),
    "doctor": LazyEntry("attest.cli.doctor:doctor", "Check that this machine is ready to attest, with remedies."),
    "inspect": LazyEntry("attest.cli.inspect:inspect", "Show the content of a file, without verification."),
    "measure": LazyEntry("attest.cli.measure:measure", "Compute the measurement that a guest image will have."),
    "endorsements": LazyEntry(
        "attest.cli.endorsements:endorsements", "Fetch what vendors publish; make offline bundles."
    ),
    "policy": LazyEntry("attest.cli.policy:policy", "Check policy documents, and describe their keys."),
    "token": LazyEntry("attest.cli.ear:token", "Make and publish keys that sign results."),
    "references": LazyEntry(
        "attest.cli.references:references", "Documents of reference values: from evidence, RIMs and CoRIM."
    ),
    "nvsdk": LazyEntry("attest.cli.nvsdk:nvsdk", "Verify with NVIDIA's own Python SDK as a second opinion."),
    "page": LazyEntry("attest.cli.web_page:page", "Check a service in the browser, with a page from this computer."),
    "docs": LazyEntry("attest.cli.docs:docs", "Show the documentation that fits this version."),
    "simulate": LazyEntry("simulate", "SIMULATED hardware for tests.", distribution="attest-simulator"),
    "completion": LazyEntry("attest.cli.completion:completion", "Print the completion script of a shell."),
}
_WITH_KEYS = frozenset({"key", "keyprovider", "release", "run", "seal", "sealed", "unseal"})
"""Commands with keys or models in memory; 'agent' hardens itself."""
_EXAMPLES = (
    "attest verify report.bin --nonce 00112233...        # is it genuine, and is it fresh?",
    "attest appraise report.bin --nonce ... --policy p.yaml",
    "attest inspect report.bin                           # show the content (nothing is verified)",
)


@contextmanager
def _reader_may_go() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as exc:
        raise ReaderGoneError from exc


class _Root(LazyGroup):
    """The root: every failure of every command ends at its boundary."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,  # noqa: ANN401  handed on to click
    ) -> click.Context:
        """Parse; ``--help`` prints here."""
        with _reader_may_go():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command."""
        with _reader_may_go():
            return super().invoke(ctx)

    def main(  # type: ignore[override]  # click's overloads cannot be repeated by one signature
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,  # noqa: ANN401  handed on to click
    ) -> int:
        """Run; exit, or return the exit code when not ``standalone_mode``."""
        run = super().main
        code = guarded(lambda: run(args, prog_name or "attest", complete_var, standalone_mode=False, **extra))
        if standalone_mode:
            sys.exit(code)
        return code


@click.group(
    "attest",
    cls=_Root,
    lazy=_COMMANDS,
    examples=_EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "-V", "--version", prog_name="attest", message="%(prog)s %(version)s")
def cli() -> None:
    """Verify and appraise attestation evidence of confidential machines.

    Exit codes: 0 verified or affirmed, 1 not affirmed, 2 usage, 3 malformed or unsupported evidence, 4 verification
    failed, 5 endorsement missing or stale, 6 collection failed, 70 an internal error.
    """


def main() -> int:
    """Run the command line of this process."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character gets its escape instead of a crash.
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    if not _WITH_KEYS.isdisjoint(sys.argv[1:2]):
        from attest.hardening import harden

        harden(inherited=False)
    return cli.main(standalone_mode=False)


if __name__ == "__main__":  # otherwise 'python -m attest.cli.main' would do nothing and exit with 0
    sys.exit(main())
