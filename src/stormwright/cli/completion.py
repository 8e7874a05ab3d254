"""``stormwright completion``: print the shell completion script."""

from __future__ import annotations

import click
from click.shell_completion import ShellComplete, get_completion_class

from stormwright.cli import COMPLETION_VARIABLE, PROGRAM, cli
from stormwright.cli.lines import say_lines


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """It completes verbs, options, files and names of schedulers in SHELL.

    Add `eval "$(stormwright completion bash)"` (or `zsh`) to ~/.bashrc or ~/.zshrc. For fish:
    `stormwright completion fish > ~/.config/fish/completions/stormwright.fish`. Requires bash 4.4 or later.
    """
    kind = get_completion_class(shell) or ShellComplete
    # Click's own would start bash to see how old it is, and it may be another machine's.
    say_lines(ShellComplete.source(kind(cli, {}, PROGRAM, COMPLETION_VARIABLE)))
