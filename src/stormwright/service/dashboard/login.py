"""The way in for browsers: a page that asks for a token, and a cookie that stands for it until its session ends."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from stormwright.errors import InputError, NotAllowedError
from stormwright.service.auth.middleware import AuthMiddleware, address_of, visitor_of
from stormwright.service.auth.roles import DELIVER, LOGIN, LOGOUT
from stormwright.service.auth.sessions import LASTS_S, cookie_of
from stormwright.service.dashboard import forms
from stormwright.service.dashboard.rendering import HEADERS, written_outside
from stormwright.service.dashboard.views.page import Page
from stormwright.service.http.asgi import Bodies, from_here

_MAX_BYTES = 8 * 1024


class Login:
    """Logging in and out; on the thread of the event loop.

    Parameters
    ----------
    auth
        Knows tokens and sessions.
    """

    def __init__(self, auth: AuthMiddleware) -> None:
        self._auth = auth
        self._bodies = Bodies(_MAX_BYTES, 64 * _MAX_BYTES)
        self.routes = [
            Route(LOGIN, self._log_in, methods=["POST"]),
            Route(LOGIN, self._ask, methods=["GET"]),
            Route(LOGOUT, self._log_out, methods=["POST"]),
        ]

    async def _ask(self, request: Request) -> Response:
        return _page(_inside(request.query_params.get("next", "")))

    async def _log_in(self, request: Request) -> Response:
        auth, address = self._auth, address_of(request.scope)
        body = await self._bodies.read(request)
        try:
            form = forms.form_of(body)
        except InputError:
            form = {}
        token, following = _last(form, "token"), _inside(_last(form, "next"))
        if not from_here(request):
            return _page(following, "another site has sent this form: nothing was done", 403)
        found = auth.tokens.find_token(token) if auth.tokens and token else None
        visitor = auth.tokens.visitor(found) if auth.tokens else None
        if found is None or visitor is None or auth.sessions is None or visitor.role in DELIVER:
            if wait_s := auth.failures.wait_s(address):
                answer = _page(following, f"too many invalid tokens: try again in {wait_s:.0f} s", 429)
                answer.headers["retry-after"] = f"{wait_s + 1:.0f}"
                return answer
            why = "This token is for programs" if visitor else "This token is invalid or was revoked"
            auth.audit.note(
                "log in", who=found.name if found else "", role="", status=401, why=why, **{"from": address}
            )
            return _page(following, why, 401)
        auth.audit.note("log in", who=visitor.name, role=visitor.role, status=303, **{"from": address})
        answer = RedirectResponse(following, 303, HEADERS)
        self._set_cookie(answer, auth.sessions.begin(found), round(LASTS_S))
        return answer

    async def _log_out(self, request: Request) -> Response:
        body = await self._bodies.read(request)
        try:
            forms.signed(forms.form_of(body), visitor_of(request.scope))
        except (InputError, NotAllowedError):
            return _page("/", "this was not sent by a page that you were shown: you are still logged in", 403)
        if self._auth.sessions:
            self._auth.sessions.end(cookie_of(request.headers.get("cookie", ""), self._auth.cookie))
        answer = RedirectResponse(LOGIN, 303, HEADERS)
        self._set_cookie(answer, "", 0)
        return answer

    def _set_cookie(self, answer: Response, value: str, seconds: int) -> None:
        answer.set_cookie(
            self._auth.cookie, value, seconds, path="/", secure=self._auth.secure, httponly=True, samesite="strict"
        )


def _page(following: str, why: str = "", status: int = 200) -> Response:
    page = Page("login", "Log in", "", {"next": following, "why": why}, status=status)
    return Response(written_outside(page), status, HEADERS, "text/html")


def _inside(path: str) -> str:
    """A path of this service; the first page where it is none, as of who wants to lead people elsewhere."""
    plain = path.isascii() and path.isprintable() and "\\" not in path
    return path if plain and path.startswith("/") and not path.startswith("//") and len(path) < 2000 else "/"


def _last(form: Mapping[str, object], name: str) -> str:
    found = form.get(name)
    return found[-1].strip() if isinstance(found, list) else ""
