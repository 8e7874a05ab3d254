"""Whether what a browser sends comes from a page of this service: another site must not act in a visitor's name."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.requests import Request


def from_here(request: Request) -> bool:
    """Whether one of our own pages, or a program, sent a request.

    Browsers tell where a request comes from, and other pages cannot keep them from it; programs tell nothing.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host", "")
