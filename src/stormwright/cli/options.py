"""Arguments and options shared by several verbs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from stormwright.cli.lines import ALL
from stormwright.defaults import DEFAULT_SCHEDULER
from stormwright.errors import Fault, nearest

Function = TypeVar("Function", bound=Callable[..., None])

#: Kinds of moves, as in `stormwright.plans.modes.MoveKind`, which is imported late.
MOVE_KINDS = ("drain", "checkpoint", "window", "batch", "replay", "never")

#: Longer than any sentence.
_ANY_LENGTH = 1000


class Verbs(click.Group):
    """A group that lists the full summary of its verbs, and suggests names for typos."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Suggest the nearest verb for an unknown name."""
        near = nearest(args[0], self.list_commands(ctx))
        if near not in (None, args[0]) and not ctx.resilient_parsing:
            ctx.fail(f"No such command {args[0]!r}; did you mean {near!r}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """See click."""
        verbs = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, verb.get_short_help_str(_ANY_LENGTH)) for name, verb in verbs if verb])


class ValidatedCommand(click.Command):
    """A command that reports all invalid options at once, not only the first."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """See click."""
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.BadParameter as first:
            raise click.UsageError("\n  ".join(self._wrong(ctx, given)), ctx) from first

    def _wrong(self, ctx: click.Context, args: list[str]) -> Iterator[str]:
        values, _, _ = self.make_parser(ctx).parse_args(args=args)
        for parameter in self.get_params(ctx):
            value, source = parameter.consume_value(ctx, values)
            try:
                parameter.process_value(ctx, value)
            except click.BadParameter as error:
                error.param, error.param_hint = parameter, self._hint(ctx, parameter, source)
                yield error.format_message()

    def _hint(
        self,
        ctx: click.Context,  # noqa: ARG002 (for those that need it)
        parameter: click.Parameter,  # noqa: ARG002
        source: ParameterSource,  # noqa: ARG002
    ) -> str | None:
        """Return the origin of an invalid value; None for the option itself."""
        return None


class _OutputPath(click.Path):
    """A file to write; ``-`` is standard output.

    A name that ends with ``/`` is a directory, which a `Path` does not show.
    """

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """See click."""
        if isinstance(value, str) and value.endswith("/") and not Path(value).is_dir():
            self.fail(f"{value!r} is a directory, and a file is to be written", param, ctx)
        return super().convert("/dev/stdout" if value == "-" else value, param, ctx)


class _LocalDirectory(click.Path):
    """A directory of this machine, and no URI."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """See click."""
        if "://" in str(value):
            self.fail(
                f"{value} is a URI, and should be a directory of this machine; --history may be a URI", param, ctx
            )
        return super().convert(value, param, ctx)


#: A directory of this machine that is made if it is missing.
LOCAL_DIRECTORY = _LocalDirectory(path_type=Path, file_okay=False)

#: Where a verb's context has the file of its token.
TOKEN_FILE = "stormwright.token-file"  # noqa: S105 (a name)

PATH, OUTPUT_PATH = click.Path(path_type=Path), _OutputPath(path_type=Path)


class PerNode(click.ParamType[Any]):
    """A value for all nodes, or one for each, separated by commas."""

    def __init__(self, of: type[float] | type[str]) -> None:
        self._of, self.name = of, "VALUE[,…]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """See click."""
        if not isinstance(value, str):
            return value
        try:
            values = tuple(self._of(each.strip()) for each in value.split(","))
        except ValueError:
            self.fail(f"{value!r} is no number, and no numbers separated by commas", param, ctx)
        return values if len(values) > 1 else values[0]


#: Magnitude from which a limit of a range is that of a data type, and says nothing to a reader.
_ENDLESS = 2**60


def _range_text(of: click.IntRange | click.FloatRange) -> str:
    """Return a range for people; empty if it has no limit."""
    low, high = (None if end is None or abs(end) >= _ENDLESS else end for end in (of.min, of.max))
    least = None if low is None else f"{'above' if of.min_open else 'from'} {low:,.10g}"
    most = None if high is None else f"{'below' if of.max_open else 'to' if least else 'up to'} {high:,.10g}"
    return " ".join(filter(None, (least, most)))


class WholeRange(click.IntRange):
    """A whole number in a range, without digits of other scripts, which click accepts."""

    def _describe_range(self) -> str:
        return _range_text(self)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """See click."""
        if not str(value).isascii():
            self.fail(f"{value} has other characters than the digits 0 to 9", param, ctx)
        return int(super().convert(value, param, ctx))


#: Up to a hundred years.
DAYS = WholeRange(1, 36_525)


class FiniteRange(click.FloatRange):
    """A number in a range, without ``inf``, ``nan`` and digits of other scripts, which click accepts."""

    def _describe_range(self) -> str:
        return _range_text(self)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """See click."""
        if not str(value).isascii():
            self.fail(f"{value} has other characters than the digits 0 to 9", param, ctx)
        number = float(super().convert(value, param, ctx))
        if not isfinite(number):
            self.fail(f"{value} must be finite", param, ctx)
        return number


class Goals(click.ParamType[tuple[str, ...]]):
    """Comma-separated objectives, the most important first; repeated ones count once."""

    name = "goals"

    def __init__(self, known: Sequence[str]) -> None:
        self._one = click.Choice(known)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """See click."""
        return f"{self._one.get_metavar(param, ctx)},…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """See click."""
        if isinstance(value, tuple):
            return value
        return tuple(dict.fromkeys(str(self._one.convert(each.strip(), param, ctx)) for each in value.split(",")))

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """See click."""
        typed, comma, last = incomplete.rpartition(",")
        return [CompletionItem(typed + comma + each.value) for each in self._one.shell_complete(ctx, param, last)]


def scheduler_names(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of schedulers that complete the input, or its last part after a comma."""
    from stormwright.schedulers import scheduler_names

    typed, comma, last = incomplete.rpartition(",")
    return [f"{typed}{comma}{name}" for name in scheduler_names() if name.startswith(last)]


#: The problem's file; ``-`` is standard input.
problem_file = click.argument("file", type=PATH)
scheduler = click.option(
    "--scheduler",
    "scheduler_name",
    default=DEFAULT_SCHEDULER,
    show_default=True,
    help="Scheduler to use.",
    shell_complete=scheduler_names,
)
parameters = click.option("--set", "assignments", multiple=True, metavar="KEY=VALUE", help="Scheduler parameter.")
seed = click.option("--seed", type=WholeRange(-(2**63), 2**63 - 1), help="Random seed, for schedulers that use one.")
costs = click.option(
    "--costs",
    "costs_file",
    type=PATH,
    help="Message and worker costs, as written by `stormwright calibrate`  [default: those of the problem].",
)
jars = click.option("--jar", "jars", multiple=True, type=PATH, help="Jar with Java classes, in addition to Storm's.")
nodes = click.option("--nodes", default=3, type=WholeRange(), show_default=True, help="Number of supervisors.")


def idle(reasons: Mapping[str, str]) -> list[Fault]:
    """Return faults for given options of the current verb that have no effect.

    Parameters
    ----------
    reasons
        Name of a parameter → why it has no effect.
    """
    context = click.get_current_context()
    names = {parameter.name: parameter.opts[0] for parameter in context.command.params}
    unsaid = (None, ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP, ParameterSource.ENVIRONMENT)
    given = [name for name in reasons if context.get_parameter_source(name) not in unsaid]
    return [Fault(f"has no effect: {reasons[name]}", names[name]) for name in given]


def storm_home(text: str, *, kind: type[click.Option] = click.Option) -> Callable[[Function], Function]:
    """Return ``--storm-home``, a Storm installation, with `text` as its help."""
    path_type = click.Path(path_type=Path, exists=True, file_okay=False)
    return click.option("--storm-home", cls=kind, type=path_type, help=text)


def address(reached_by: str, *, port: int) -> Callable[[Function], Function]:
    """Add ``--host`` and ``--port`` of this machine; `reached_by` names the clients, `port` is the default."""

    def with_both(function: Function) -> Function:
        host = click.option(
            "--host", default="127.0.0.1", show_default=True, help=f"Address of this machine that {reached_by} reach."
        )
        number = WholeRange(1, 65535)
        return host(
            click.option("--port", default=port, show_default=True, type=number, help="Port to listen on.")(function)
        )

    return with_both


def from_scratch(default: str) -> Callable[[Function], Function]:
    """Return ``--from-scratch`` and ``--keep-running``; None if neither is given, which `default` describes."""
    return click.option(
        "--from-scratch/--keep-running",
        "from_scratch",
        default=None,
        help="Ignore the current placement, and relabel slots to minimise moves; or pass it to the scheduler: most "
        f"then keep what runs, and n_version, online and optimizer move where it pays.  [default: {default}]",
    )


#: The address of a running service.
service_address = click.option(
    "--service",
    "address",
    default="http://127.0.0.1:7070",
    show_default=True,
    envvar="STORMWRIGHT_SERVICE",
    show_envvar=True,
    metavar="URL",
    help="URL of the running service.",
)


def service(function: Function) -> Function:
    """Add `service_address`, ``--by`` and ``--token-file``."""
    who = click.option("--by", default=user, show_default="you", help="Author of the change, for the history.")
    return service_address(who(token(function)))


def token(function: Function) -> Function:
    """Add ``--token-file``, which `asking.client_of` uses."""
    option = click.option(
        "--token-file",
        type=PATH,
        envvar="STORMWRIGHT_TOKEN_FILE",
        show_envvar=True,
        expose_value=False,
        callback=_keep_token_file,
        help="File with the token to authenticate with.  [default: the token in STORMWRIGHT_TOKEN, if set]",
    )
    return option(function)


def _keep_token_file(context: click.Context, _: click.Parameter, value: Path | None) -> None:
    if value is not None:
        context.meta[TOKEN_FILE] = value


def user() -> str:
    """Return the owner of this process."""
    from getpass import getuser

    try:
        return getuser()
    except (KeyError, OSError):  # a number without a name
        return str(os.getuid())


def reason(default: str) -> Callable[[Function], Function]:
    """Add ``--reason``, the reason of a change."""
    return click.option("--reason", default=default, show_default=True, help="Reason of the change, for the history.")


def output(text: str) -> Callable[[Function], Function]:
    """Add ``-o`` or ``--output``, a path, with the help `text`."""
    return click.option("-o", "--output", type=OUTPUT_PATH, help=text)


def as_json(text: str) -> Callable[[Function], Function]:
    """Add ``--json`` with the help `text`."""
    return click.option("--json", "as_json", is_flag=True, help=text)


def everything(function: Function) -> Function:
    """Add ``--all``, by which `stormwright.cli.output` cuts nothing short."""
    option = click.option(
        "--all", is_flag=True, expose_value=False, callback=_print_all, help="Print long lists in full."
    )
    return option(function)


def _print_all(context: click.Context, _: click.Parameter, value: bool) -> None:
    context.meta[ALL] = value


def steps(function: Function) -> Function:
    """Add ``--steps``, which prints every move and step of a plan."""
    option = click.option("--steps", is_flag=True, help="Print every move, its reason, and the steps.")
    return option(function)


def log_format(function: Function) -> Function:
    """Add ``--log-format`` to a long-running verb."""
    text = "A line for each event: for people, or a JSON object."
    kinds = click.Choice(["text", "json"])
    return click.option("--log-format", type=kinds, default="text", show_default=True, help=text)(function)


def group(*parameters: Callable[[Function], Function]) -> Callable[[Function], Function]:
    """Return a decorator that adds several options, in this order."""

    def add(function: Function) -> Function:
        for parameter in reversed(parameters):
            function = parameter(function)
        return function

    return add


class _LineType(click.types.StringParamType):
    """Text; an environment variable has one value a line, as values have blanks."""

    def split_envvar_value(self, rv: str) -> Sequence[str]:
        """See click."""
        return [line for line in rv.splitlines() if line.strip()]


#: Type of an option that can be repeated.
LINES = _LineType()


def spark(function: Function) -> Function:
    """Add ``--master`` and ``--spark-conf``, for `stormwright.pipeline.spark.target.SparkTarget.parsed`."""
    master = click.option(
        "--master",
        envvar="STORMWRIGHT_SPARK_MASTER",
        show_envvar=True,
        metavar="URL",
        help="Spark master: local[N], spark://HOST:PORT or sc://HOST:PORT (Spark Connect).  [default: local[*]; "
        "under spark-submit what that says]",
    )
    conf = click.option(
        "--spark-conf",
        envvar="STORMWRIGHT_SPARK_CONF",
        show_envvar=True,
        type=LINES,
        multiple=True,
        metavar="KEY=VALUE",
        help="Spark setting; in the environment variable one a line.",
    )
    return master(conf(function))
