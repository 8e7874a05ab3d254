"""How many examples a property is tried with."""

from __future__ import annotations

import os

#: Of a property that says nothing else.
USUAL = 10


def examples(usual: int = USUAL) -> int:
    """The examples of a property: what the variable EXAMPLES of the environment says, else `usual`."""
    return int(os.environ.get("EXAMPLES", usual))
