"""The command ``completion``: the completion script of a shell."""

from __future__ import annotations

import click

from attest.terminal.lazy_commands import ExampleCommand


def completion_command(program: str) -> click.Command:
    """Make the command for a program."""

    @click.command(
        "completion",
        cls=ExampleCommand,
        short_help="Print the completion script of a shell.",
        examples=(
            f'eval "$({program} completion bash)"                     # in ~/.bashrc',
            f'eval "$({program} completion zsh)"                      # in ~/.zshrc',
            f"{program} completion fish > ~/.config/fish/completions/{program}.fish",
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
        click.echo(kind(ctx.find_root().command, {}, program, f"_{program.upper()}_COMPLETE").source())

    return completion
