"""Persistent record of topologies paused by a move, so that a killed service does not leave them paused."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from stormwright.base.documents import Document
from stormwright.errors import ClusterError, NimbusError, StormwrightError

log = logging.getLogger(__name__)

#: Storm's exception for an unknown topology.
GONE = "NotAliveException"


class Pauses:
    """Names of topologies whose spouts a move has paused and not resumed.

    Parameters
    ----------
    document
        Document with the names.

    Raises
    ------
    ClusterError
        The document is damaged.
    """

    def __init__(self, document: Document) -> None:
        self._document = document
        text = document.load()
        try:
            self._names = [] if text is None else [str(name) for name in json.loads(text)]
        except (ValueError, TypeError) as error:
            raise ClusterError(
                f"{document} is damaged ({error}): activate by hand what is INACTIVE and should not be, then delete it"
            ) from error

    @property
    def names(self) -> tuple[str, ...]:
        """The names."""
        return tuple(self._names)

    @contextmanager
    def around(self, names: Sequence[str], activate: Callable[[str], None]) -> Iterator[None]:
        """Activate all of `names` at the end of the block; if that fails, `resume` tries again.

        Raises
        ------
        OSError
            The names cannot be stored: the block has not begun.
        NimbusError
            One could not be activated; the others have been tried all the same. So they have where `activate` raises
            anything else, which is passed on.
        """
        paused = [*self._names, *names]
        self._write(paused)
        self._names = paused
        try:
            yield
        finally:
            failure: Exception | None = None
            for name in names:
                try:
                    activate(name)
                except Exception as error:  # the next one is not to stay paused for it
                    failure = failure or error
                else:
                    self._forget(name)
            if failure:
                raise failure

    def resume(self, activate: Callable[[str], None]) -> list[str]:
        """Activate topologies left paused by earlier moves; failures are retried next time.

        Returns
        -------
        names
            Names of activated topologies.
        """
        resumed = []
        for name in list(self._names):
            try:
                activate(name)
                resumed.append(name)
                log.info("%s: activated, a move had left it paused", name)
            except NimbusError as error:
                if error.kind != GONE:
                    log.warning("%s: a move has left it paused, and it cannot be activated now: %s", name, error)
                    continue
            self._forget(name)
        return resumed

    def _forget(self, name: str) -> None:
        self._names = [other for other in self._names if other != name]
        try:
            self._write(self._names)
        except (OSError, StormwrightError) as error:
            log.warning("%s: activated, but a service that starts now would do it again: %s", name, error)

    def _write(self, names: list[str]) -> None:
        self._document.save(json.dumps(names))
