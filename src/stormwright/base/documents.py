"""Small documents that survive restarts: in a database (`stormwright.service.storage.database`) or a file."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from stormwright.base.files import write_whole

log = logging.getLogger(__name__)

_T = TypeVar("_T")


class Document(Protocol):
    """A text that is stored as a whole."""

    def load(self) -> str | None:
        """Return the text stored last; None if there is none."""

    def save(self, text: str) -> None:
        """Store a text; if this raises, the one before is still stored."""

    def set_aside(self) -> None:
        """Preserve the stored text under another name, as it is damaged."""


@dataclass(frozen=True)
class FileDocument:
    """A document in a file; its directory must exist."""

    path: Path

    def load(self) -> str | None:
        """Return the text of the file; None without a file."""
        return self.path.read_text(encoding="utf-8") if self.path.exists() else None

    def save(self, text: str) -> None:
        """Replace the file atomically."""
        write_whole(self.path, text.encode())

    def set_aside(self) -> None:
        """Rename the file to ``*.damaged``."""
        self.path.replace(self.path.with_suffix(".damaged"))


def read_or_default(document: Document, read: Callable[[str], _T], default: Callable[[], _T], lost: str) -> _T:
    """Return the content of a document, or the default if it is missing or cannot be read.

    A damaged one, as after a loss of power, is set aside.

    Parameters
    ----------
    document
        Document to load; set aside if it is damaged.
    read
        Parses the text; raises ValueError, KeyError, TypeError or AttributeError for a damaged one.
    default
        Returns the value without a document.
    lost
        Consequence of a damaged document, for the log.
    """
    try:
        text = document.load()
        return default() if text is None else read(text)
    except OSError as error:
        log.warning("%s cannot be read (%s): %s", document, error, lost)
        return default()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        log.warning("%s is damaged (%s): %s", document, error, lost)
        try:
            document.set_aside()
        except OSError:
            log.debug("%s is not set aside", document, exc_info=True)
        return default()
