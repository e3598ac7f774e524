"""``attest completion``: the completion script of a shell."""

from __future__ import annotations

import click

from attest.terminal.lazy_commands import ExampleCommand


@click.command(
    cls=ExampleCommand,
    examples=(
        'eval "$(attest completion bash)"                     # in ~/.bashrc',
        'eval "$(attest completion zsh)"                      # in ~/.zshrc',
        "attest completion fish > ~/.config/fish/completions/attest.fish",
    ),
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell, on standard output."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"no completion for {shell}")
    click.echo(kind(ctx.find_root().command, {}, "attest", "_ATTEST_COMPLETE").source())
