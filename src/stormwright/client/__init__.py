"""The service's API, as programs use it: its shapes and a client. Needs nothing else of stormwright."""

from __future__ import annotations

from stormwright.client.client import Client

__all__ = ["Client"]
