"""Persistent record of topologies paused by a move, so that a killed service does not leave them paused."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from stormwright.errors import ClusterError, NimbusError, StormwrightError
from stormwright.files import write_whole

log = logging.getLogger(__name__)

#: Storm's exception for an unknown topology.
GONE = "NotAliveException"


class Pauses:
    """Names of topologies whose spouts a move has paused and not resumed.

    Parameters
    ----------
    path
        File for the names; its directory must exist.
    share
        Called with the new content before the file is written; if it raises, nothing is written.
    """

    def __init__(self, path: Path, share: Callable[[str], None] = lambda _: None) -> None:
        self._path, self._share = path, share
        self._names: list[str] = []
        if path.exists():
            try:
                self._names = [str(name) for name in json.loads(path.read_text(encoding="utf-8"))]
            except (ValueError, TypeError) as error:
                raise ClusterError(
                    f"{path} is damaged ({error}): activate by hand what is INACTIVE and should not be, then delete it"
                ) from error

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
        content = json.dumps(names)
        self._share(content)
        write_whole(self._path, content.encode())
