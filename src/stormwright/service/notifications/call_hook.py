"""Calls an operator's function in a process of its own.

As ``python -m stormwright.service.notifications.call_hook MODULE:FUNCTION``.

The failure or event comes as JSON on standard input; with nothing there the function is only loaded.
"""

from __future__ import annotations

import sys
from importlib import import_module

import orjson

from stormwright.service.notifications.notifier import ServiceEvent
from stormwright.storm.bridge import Failure


def main(name: str, document: bytes) -> None:
    """Call the function `name` with the failure, or the event, in `document`."""
    module, _, function = name.partition(":")
    try:
        hook = getattr(import_module(module), function)
    except Exception as error:  # a module may raise anything while it is imported
        sys.exit(f"{type(error).__name__}: {error}")
    if not callable(hook):
        sys.exit(f"{function} is not a function")
    if document:
        fields = orjson.loads(document)
        hook(
            Failure(**{**fields, "reasons": tuple(fields["reasons"])})
            if "reasons" in fields
            else ServiceEvent(**fields)
        )


if __name__ == "__main__":
    main(sys.argv[1], sys.stdin.buffer.read())
