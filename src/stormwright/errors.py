"""What can go wrong, as one tree.

::

    StormwrightError              anything a user can act on; exit code 2 unless it says otherwise
    ├── InputError                bad input: every fault of a file at once, each with its path
    ├── MissingDependencyError    an optional engine or a system tool is absent: says what to install
    ├── ClusterError              a Storm daemon, namespace or worker did not do what was asked
    ├── NimbusError               Nimbus refused a call or could not be reached
    ├── MoveError                 a safe move was given up; what ran before runs on
    │   └── MoveStoppedError      as whoever moves is being stopped: nothing has failed
    ├── NotThereError            there is nothing of the name that was asked for
    ├── ConflictError            what is asked cannot be done as things are now
    ├── NotAllowedError          whoever asks may not do what is asked
    ├── NotLeadingError          another service of the cluster leads, or this one cannot be sure that it does
    ├── HookError                 the operator's program or function for failures failed or took too long
    └── SchedulerError            a scheduler that is not ours failed; the message has its own cause
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
        """What it says in one line, for a table, a page or a log."""
        return str(self)


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong with an input: what, and where.

    Parameters
    ----------
    path
        A JSON path such as ``$.supervisors[2].ports``, ``$`` for the whole; or what was given, such as a name.
    """

    message: str
    path: str

    def __str__(self) -> str:
        message, path = printable(self.message), printable(self.path)
        if path == "$":
            return message
        # What was given comes before what is wrong with it, which may be a long list of what there is.
        return f"{message} @ {path}" if path.startswith("$") else f"{path}: {message}"


class InputError(StormwrightError):
    """Bad input, with all its faults.

    Parameters
    ----------
    source
        The file, option or endpoint that was read.
    faults
        What was found wrong with it.
    more
        How many faults there are besides those.
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
        """Its faults."""
        return "; ".join([*map(str, self.faults), *([f"and {self.more:,} more"] if self.more else [])])


class MissingDependencyError(StormwrightError):
    """A package or tool that this part needs is not installed."""


class ClusterError(StormwrightError):
    """The Storm cluster, or the machine under it, did not do what was asked."""


class NimbusError(ClusterError):
    """Nimbus refused a call or could not be reached.

    Parameters
    ----------
    kind
        Name of Storm's exception, where it refused.
    """

    def __init__(self, message: str, kind: str = "") -> None:
        self.kind = kind
        super().__init__(message)


class MoveError(StormwrightError):
    """A safe move was given up before the swap; the topology runs on where it was."""


class MoveStoppedError(MoveError):
    """A safe move was given up before the swap because whoever makes it is being stopped."""


class NotThereError(StormwrightError):
    """There is nothing of the name or number that was asked for."""


class ConflictError(StormwrightError):
    """What is asked cannot be done as things are now; the message says what has to be different."""


class NotAllowedError(StormwrightError):
    """Whoever asks may not do what is asked."""


class NotLeadingError(StormwrightError):
    """Of several services beside a cluster another one decides, or this one cannot be sure that it does."""


class HookError(StormwrightError):
    """What the operator wants called on failures failed or took too long; scheduling goes on."""


class SchedulerError(StormwrightError):
    """Code of a scheduler that is not ours failed, or could not be run; the message has its own cause."""


@contextmanager
def collected(faults: list[Fault], option: str) -> Iterator[None]:
    """Go on after the block where an input of it is bad, so that all that is wrong can be told at once.

    Parameters
    ----------
    faults
        Gets what is wrong.
    option
        What the user gave the input with.
    """
    try:
        yield
    except InputError as error:
        faults += [replace(each, path=option if each.path == "$" else f"{option} {each.path}") for each in error.faults]
    except StormwrightError as error:
        faults.append(Fault(str(error), option))


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The one of `known` that `name` nearly is, if any: what was meant."""
    from difflib import get_close_matches  # only mistakes need it

    return next(iter(get_close_matches(name, list(known), n=1)), None)


def who_is_there(name: str, known: Iterable[str], most: int = 3) -> str:
    """The end of a sentence that says that there is no `name`: who may be meant, or the first of those there are."""
    there = sorted(known)
    meant = nearest(name, there)
    told = [meant] if meant else there[:most]
    more = ", …" if not meant and len(there) > most else ""
    return f"; there is {', '.join(told) or 'none at all'}{more}"
