"""What others print while it is turned away does not come between what a program reads."""

from __future__ import annotations

import os
import subprocess
import sys

NOISY = """
import ctypes
from stormwright.base import stdout
stdout.redirect_to_stderr()
ctypes.CDLL(None).printf(b"noise\\n")
stdout.end_redirection()
print("answer")
"""


def test_c_output_of_a_solver_is_redirected_to_stderr():
    """C keeps it in a buffer of its own there until the program ends."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    ran = subprocess.run([sys.executable, "-c", NOISY], capture_output=True, text=True, env=environment, check=True)
    assert (ran.stdout, ran.stderr) == ("answer\n", "noise\n")
