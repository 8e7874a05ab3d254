"""Exceptions, as one tree.

::

    StormwrightError              anything a user can act on; exit code 2 by default
    ├── InputError                bad input: every fault of a file at once, each with its path
    ├── MissingDependencyError    an optional engine or a system tool is missing: states what to install
    ├── ClusterError              a Storm daemon, namespace or worker failed
    ├── NimbusError               Nimbus refused a call or could not be reached
    ├── MoveError                 a safe move was cancelled; the previous placement runs on
    │   └── MoveStoppedError      cancelled because the mover is being stopped: nothing has failed
    ├── NotFoundError             nothing has the given name
    ├── ConflictError             the request is impossible in the current state
    ├── NotAllowedError           the caller is not authorised
    ├── NotLeadingError           another service of the cluster leads, or leadership is uncertain
    ├── HookError                 the operator's program or function for failures failed or took too long
    └── SchedulerError            an external scheduler failed; the message has its cause
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from stormwright.escaping import printable


class StormwrightError(Exception):
    """Base of every error that stormwright raises on purpose."""

    @property
    def line(self) -> str:
        """Message in one line, for a table, a page or a log."""
        return str(self)


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of an input: description and position.

    Parameters
    ----------
    path
        A JSON path such as ``$.supervisors[2].ports``, ``$`` for the whole; or the given value, such as a name.
    """

    message: str
    path: str

    def __str__(self) -> str:
        message, path = printable(self.message), printable(self.path)
        if path == "$":
            return message
        # The source comes before the faults, which may be a long list.
        return f"{message} @ {path}" if path.startswith("$") else f"{path}: {message}"


class InputError(StormwrightError):
    """Bad input, with all its faults.

    Parameters
    ----------
    source
        The file, option or endpoint that was read.
    faults
        Faults of the source.
    more
        Number of faults besides those.
    """

    def __init__(self, source: str, faults: Sequence[Fault], more: int = 0) -> None:
        self.source = source
        self.faults = tuple(faults)
        self.more = more
        number = len(self.faults) + more
        count = "1 fault" if number == 1 else f"{number} faults"
        rest = [f"  and {more:,} more"] if more else []
        super().__init__("\n".join([f"{printable(source)}: {count}", *(f"  {fault}" for fault in self.faults), *rest]))

    @property
    def line(self) -> str:
        """Its faults, in one line."""
        return "; ".join([*map(str, self.faults), *([f"and {self.more:,} more"] if self.more else [])])


class MissingDependencyError(StormwrightError):
    """A required package or tool is not installed."""


class ClusterError(StormwrightError):
    """The Storm cluster, or the machine under it, failed to carry out a request."""


class NimbusError(ClusterError):
    """Nimbus refused a call or could not be reached.

    Parameters
    ----------
    kind
        Name of Storm's exception, if it refused.
    """

    def __init__(self, message: str, kind: str = "") -> None:
        self.kind = kind
        super().__init__(message)


class MoveError(StormwrightError):
    """A safe move was cancelled before the swap; the topology runs on in its previous slots."""


class MoveStoppedError(MoveError):
    """A safe move was cancelled before the swap because the mover is being stopped."""


class NotFoundError(StormwrightError):
    """Nothing has the given name or number."""


class ConflictError(StormwrightError):
    """The request is impossible in the current state; the message states the required one."""


class NotAllowedError(StormwrightError):
    """The caller is not authorised for the request."""


class NotLeadingError(StormwrightError):
    """Another service of the cluster leads, or this one cannot be sure that it does."""


class HookError(StormwrightError):
    """The operator's hook for failures failed or took too long; scheduling goes on."""


class SchedulerError(StormwrightError):
    """Code of an external scheduler failed, or could not be run; the message has its cause."""


@contextmanager
def collected(faults: list[Fault], option: str) -> Iterator[None]:
    """Continue after the block on bad input, so that all faults can be reported at once.

    Parameters
    ----------
    faults
        Collects the faults.
    option
        Option of the input.
    """
    try:
        yield
    except InputError as error:
        faults += [replace(each, path=option if each.path == "$" else f"{option} {each.path}") for each in error.faults]
    except StormwrightError as error:
        faults.append(Fault(str(error), option))


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the one of `known` that is closest to `name`, if any: the probable intention."""
    from difflib import get_close_matches  # only mistakes need it

    return next(iter(get_close_matches(name, list(known), n=1)), None)


def suggestion_for(name: str, known: Iterable[str], most: int = 3) -> str:
    """Return the end of a sentence about an unknown `name`: a suggestion, or the first of the known names."""
    there = sorted(known)
    meant = nearest(name, there)
    if meant:
        return f"; did you mean {meant}?"
    more = ", …" if len(there) > most else ""
    return f"; known: {', '.join(there[:most]) or 'none'}{more}"
