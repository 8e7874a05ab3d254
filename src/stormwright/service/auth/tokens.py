"""Tokens with a name and a role, stored as digests."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from stormwright.base.file_lock import exclusive_lock
from stormwright.errors import ConflictError, Fault, InputError, NotFoundError, StormwrightError
from stormwright.formats.document.faults import join_path
from stormwright.service.auth.roles import Role, Visitor

log = logging.getLogger(__name__)

#: Below a service's state directory.
FILE = "tokens.json"

#: What a token begins with, so that programs which look for secrets in files find it.
PREFIX = "stormwright_"

#: Random bytes of a token. Nobody guesses 256 bits, so what is kept of it needs no slow hash, as a password's would.
_RANDOM_BYTES = 32

#: Seconds from one look at the file to the next: so long a revoked token may still be taken.
LOOK_S = 1.0

#: Names stand in the history, in logs and in tables.
NAME = "[A-Za-z0-9][A-Za-z0-9._@-]{0,63}"

#: Names by which the service itself does things.
OWN_NAMES = frozenset({"stormwright", "serve", "doctor"})


class Token(BaseModel):
    """A stored token.

    Parameters
    ----------
    name, role
        Whose it is, and what it may.
    digest
        SHA-256 of the token, in hexadecimal digits.
    created_ms, expires_ms, revoked_ms
        When it was made, when it expires (None: never), and when it was revoked (None: it was not).
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
    name: Annotated[str, Field(pattern=f"^{NAME}$")]
    role: Role
    digest: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    created_ms: int
    expires_ms: int | None = None
    revoked_ms: int | None = None

    def ended(self, now_ms: float) -> str:
        """Why it does not count at a moment; empty where it does."""
        if self.revoked_ms is not None:
            return "revoked"
        return "expired" if self.expires_ms is not None and now_ms >= self.expires_ms else ""


class _File(BaseModel):
    """The file."""

    model_config = ConfigDict(extra="forbid", strict=True)
    tokens: tuple[Token, ...]


class Tokens:
    """The tokens of a file, which may change while it is used; from any thread.

    Parameters
    ----------
    path
        The file; where there is none there are no tokens.
    now_s
        Returns the time in seconds since 1970 by which tokens expire.
    """

    def __init__(self, path: Path, now_s: Callable[[], float] = time.time) -> None:
        self.path = path
        self._now_s = now_s
        self._lock = threading.Lock()
        self._known: dict[str, Token] = {}
        self._looked_s = float("-inf")
        self._file_stamp: tuple[int, ...] | None = None
        self._wrong = ""

    def stored(self) -> list[Token]:
        """Return the tokens in the file, oldest first.

        Raises
        ------
        InputError
            The file is no file of tokens, or cannot be read.
        """
        try:
            return list(_File.model_validate_json(self.path.read_bytes()).tokens)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise InputError(str(self.path), [Fault(f"cannot be read: {error.strerror}", "$")]) from error
        except ValidationError as invalid:
            faults = [Fault(error["msg"], join_path("$", *error["loc"])) for error in invalid.errors(include_url=False)]
            raise InputError(str(self.path), faults) from invalid

    def create(self, name: str, role: Role, expires_ms: int | None = None) -> str:
        """Create a token and return its secret, which is not stored.

        Raises
        ------
        InputError
            The name is none, or the file cannot be read.
        ConflictError
            There is a token of this name that counts.
        """
        if not re.fullmatch(NAME, name):
            stored = "should be letters, digits and .-_@, beginning with a letter or digit, 64 at most"
            raise InputError("token", [Fault(stored, repr(name))])
        if name in OWN_NAMES:
            raise InputError("token", [Fault("is what the history calls the service itself: take another", name)])
        secret = PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
        with self._changing() as tokens:
            now_ms = self._now_ms()
            if any(each.name == name and not each.ended(now_ms) for each in tokens):
                raise ConflictError(f"there is a token of {name}: revoke it first, or take another name")
            made = Token(name=name, role=role, digest=digest_of(secret), created_ms=now_ms, expires_ms=expires_ms)
            tokens.append(made)
        return secret

    def revoke(self, name: str) -> Token:
        """End the token of a name, and return it; it stays in the list, and another one of this name may be made.

        Raises
        ------
        NotFoundError
            There is none that counts.
        """
        with self._changing() as tokens:
            now_ms = self._now_ms()
            for i, each in enumerate(tokens):
                if each.name == name and not each.ended(now_ms):
                    tokens[i] = each.model_copy(update={"revoked_ms": now_ms})
                    return tokens[i]
            raise NotFoundError(f"there is no token of {name} that counts; `stormwright token list` lists them")

    def find_token(self, secret: str) -> Token | None:
        """The token that somebody sent, where it is one; it may have ended (`Token.ended`)."""
        # Whoever sends a guess learns nothing from the time this takes: he does not choose the digest.
        return self.of_digest(digest_of(secret))

    def of_digest(self, digest: str) -> Token | None:
        """The same by its digest."""
        if time.monotonic() - self._looked_s >= LOOK_S:
            self.look()
        return self._known.get(digest)

    def visitor(self, token: Token | None) -> Visitor | None:
        """Return the user of a token; None if it is invalid."""
        if token is None or token.ended(self._now_ms()):
            return None
        return Visitor(token.name, token.role)

    def look(self) -> None:
        """Reload the file if it has changed."""
        with self._lock:
            self._looked_s = time.monotonic()
            try:
                found = self.path.stat()
                stamp = (found.st_mtime_ns, found.st_ino, found.st_size)
            except OSError:  # without a file nobody has a token
                self._known, self._file_stamp = {}, None
                return
            if stamp == self._file_stamp:
                return
            try:
                self._known, self._file_stamp, self._wrong = {each.digest: each for each in self.stored()}, stamp, ""
            except InputError as error:
                if str(error) != self._wrong:
                    log.error("tokens stay as they were: %s", error)
                self._wrong = str(error)

    @contextmanager
    def _changing(self) -> Iterator[list[Token]]:
        """Yield the tokens to change; they are saved at the end of the block."""
        directory = self.path.absolute().parent
        stored = f"{self.path}: somebody else changes tokens: try again"
        with exclusive_lock(directory, stored, f"{self.path.name}.lock"):
            tokens = self.stored()
            yield tokens
            self._write(_File(tokens=tuple(tokens)).model_dump_json(indent=2).encode() + b"\n")
        self.look()

    def _write(self, content: bytes) -> None:
        """Write all of it or nothing, for the owner alone to read."""
        part = self.path.with_name(f"{self.path.name}.part")
        try:
            part.unlink(missing_ok=True)
            with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            part.replace(self.path)
        except OSError as error:
            raise StormwrightError(f"{self.path} cannot be written: {error.strerror}") from error

    def _now_ms(self) -> int:
        return round(self._now_s() * 1000)


def digest_of(secret: str) -> str:
    """Return the digest that is stored for a secret."""
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()
