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

from stormwright.base.escaping import printable


class StormwrightError(Exception):
    """Base of every error that stormwright raises on purpose.

    Notes
    -----
    Catch it to handle everything that a user can act on; its message says what is wrong, where, and what to do. Any
    other exception is a bug.

    Examples
    --------
    >>> import stormwright as sw
    >>> try:
    ...     sw.read_problem("none.json")
    ... except sw.StormwrightError as error:
    ...     print(error.line)
    cannot be read: No such file or directory
    """

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

    Notes
    -----
    Correct the source at each path: every fault that was found is listed. Unknown names come with the nearest known
    one. The service answers 400.

    Examples
    --------
    >>> import stormwright as sw
    >>> problem = sw.sketch({"words": "lines 2 -> count 4"}, nodes=3)
    >>> sw.place(problem, "onlin")
    Traceback (most recent call last):
    stormwright.errors.InputError: scheduler: 1 fault
      onlin: unknown scheduler; did you mean 'online'?
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
    """A required package or tool is not installed.

    Notes
    -----
    Install what the message names: an extra of the wheel (``pip install 'stormwright[report]'``), Java, or in a clone
    everything by ``make setup``.

    Examples
    --------
    The message of ``stormwright compare FILE --schedulers all --output report.html`` without the extra ``report``:

        the report needs matplotlib: pip install 'stormwright[report]'
    """


class ClusterError(StormwrightError):
    """The Storm cluster, or the machine under it, failed to carry out a request.

    Notes
    -----
    The message names the daemon, worker or address. See the daemon's log for the cause, remove it, and repeat the
    command. ``stormwright doctor`` checks the installation.

    Examples
    --------
    The message of a service whose port is taken:

        cannot listen on 127.0.0.1:7070: address in use; stop the other process or pass --port
    """


class NimbusError(ClusterError):
    """Nimbus refused a call or could not be reached.

    Parameters
    ----------
    kind
        Name of Storm's exception, if it refused.

    Notes
    -----
    If Nimbus could not be reached, check that it runs and that ``nimbus.seeds`` and ``nimbus.thrift.port`` in
    storm.yaml are its address. If it refused, `kind` is the exception of Storm: a topology of that name exists, or does
    not.

    Examples
    --------
    The message of a rebalance of a topology that has ended:

        Nimbus refused rebalance: words is not alive (NotAliveException)
    """

    def __init__(self, message: str, kind: str = "") -> None:
        self.kind = kind
        super().__init__(message)


class MoveError(StormwrightError):
    """A safe move was cancelled before the swap; the topology runs on in its previous slots.

    Notes
    -----
    Nothing is lost, and nothing has to be restored. Remove the cause (a topology that is not active, a worker without
    the probe, trees that take longer than ``topology.message.timeout.secs``) and apply the plan again.

    Examples
    --------
    The message of a move of a topology whose workers do not report:

        words: 2 of 3 workers do not report; nothing was moved
    """


class MoveStoppedError(MoveError):
    """A safe move was cancelled before the swap because the mover is being stopped.

    Notes
    -----
    No action is needed: the service finds the same move again after its restart, if it still pays.

    Examples
    --------
    The message of a move at the end of a service:

        words-1-1700000000: nothing was moved, the service is being stopped
    """


class NotFoundError(StormwrightError):
    """Nothing has the given name or number.

    Notes
    -----
    List the names: ``stormwright plan --list``, ``stormwright history``, ``stormwright token list``. The service
    answers 404.

    Examples
    --------
    The message of ``stormwright apply 3f2a9c01`` without such a plan:

        there is no plan 3f2a9c01; `stormwright plan --list` and `GET /v1/plans` list them
    """


class ConflictError(StormwrightError):
    """The request is impossible in the current state; the message states the required one.

    Notes
    -----
    Wait for the required state, or make a new plan: the cluster may have changed since. The service answers 409.

    Examples
    --------
    The message of ``stormwright plan`` before the first poll of Nimbus:

        Nimbus has not polled the service yet: try again in 10 s
    """


class NotAllowedError(StormwrightError):
    """The caller is not authorised for the request.

    Notes
    -----
    Ask somebody with the required role, or use a token of that role (``stormwright token create NAME --role ROLE``).
    The service answers 403.

    Examples
    --------
    The message of ``stormwright mode --two-people`` with the token of an approver who changes more than that:

        an approver changes two_people alone: an operator changes modes
    """


class NotLeadingError(StormwrightError):
    """Another service of the cluster leads, or this one cannot be sure that it does.

    Notes
    -----
    Repeat the request at the leading service; clients with several addresses do. If no service leads, check ZooKeeper.
    The service answers 503.

    Examples
    --------
    The message of a service that has lost its session:

        the session in ZooKeeper has expired, or another service leads
    """


class HookError(StormwrightError):
    """The operator's hook for failures failed or took too long; scheduling goes on.

    Notes
    -----
    Correct the program or function of ``--on-failure`` or ``--notify``; its output is in the log of the service. The
    call is not repeated.

    Examples
    --------
    The message of a target of ``--notify`` that refuses events:

        answers 500
    """


class SchedulerError(StormwrightError):
    """Code of an external scheduler failed, or could not be run; the message has its cause.

    Notes
    -----
    Read the cause in the message; ``--debug`` shows its traceback. For a scheduler of your own, its contract suite
    (``stormwright new-scheduler``) finds the case. The placement stays as it is.

    Examples
    --------
    >>> import stormwright as sw
    >>> class Broken:
    ...     def schedule(self, problem):
    ...         return None
    >>> sw.place(sw.sketch({"words": "lines 2 -> count 4"}, nodes=3), Broken())
    Traceback (most recent call last):
    stormwright.errors.SchedulerError: the answer of scheduler 'Broken' cannot be used: should be an Assignment, not \
a value of the type NoneType
    """


@contextmanager
def collected(faults: list[Fault], option: str) -> Iterator[None]:
    """Continue after the block on bad input, so that all faults can be reported at once.

    Parameters
    ----------
    faults
        List to which faults of the block are appended.
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
