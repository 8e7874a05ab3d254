"""What tests of verbs share."""

from __future__ import annotations

import pytest

from stormwright import cli


@pytest.fixture
def run(capsys):
    """Run the command line with these arguments: exit code, standard output, standard error."""

    def run_it(*arguments: object) -> tuple[int, str, str]:
        code = cli.run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run_it
