"""Registry of schedulers by name: built-in ones, and plugins (entry-point group `stormwright.schedulers`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from typing import Protocol, cast

from stormwright.base.escaping import shown
from stormwright.errors import Fault, InputError, MissingDependencyError, SchedulerError, StormwrightError, nearest
from stormwright.jit.compilation import report_compilation
from stormwright.model import Assignment, Scheduler
from stormwright.model.constraints.optional import CpuShare, ExtraLimit, Tags
from stormwright.schedulers.toolkit.multi_tenancy import MultiTenantScheduler
from stormwright.schedulers.toolkit.params import KINDS, ParameterSet, Params
from stormwright.schedulers.toolkit.plugin_guard import PluginGuard, PluginScheduler
from stormwright.schedulers.toolkit.queue_rules import OPTIONS, QueueRules
from stormwright.schedulers.toolkit.traits import Traits, declared
from stormwright.schedulers.toolkit.wrappers import IsolatingScheduler, NodeWeightScheduler

ENTRY_POINT_GROUP = "stormwright.schedulers"

#: Setting that names a variant of a scheduler: its values are defaults for the other settings.
VARIANT = "variant"

#: Name → location of its class; imported on demand.
SCHEDULERS: Mapping[str, str] = {
    "annealing": "stormwright.schedulers.annealing:AnnealingScheduler",
    "ant_colony": "stormwright.schedulers.ant_colony:AntColonyScheduler",
    "binpack": "stormwright.schedulers.generic:BinpackScheduler",
    "cost_aware": "stormwright.schedulers.cost_aware:CostAwareScheduler",
    "d_storm": "stormwright.schedulers.d_storm:DStormScheduler",
    "dynamic_weighted_round_robin": "stormwright.schedulers.generic:DynamicWeightedScheduler",
    "earliest_available": "stormwright.schedulers.generic:EarliestAvailableScheduler",
    "even": "stormwright.schedulers.even:EvenScheduler",
    "genetic": "stormwright.schedulers.genetic:GeneticScheduler",
    "learned": "stormwright.schedulers.learned:LearnedScheduler",
    "least_executors": "stormwright.schedulers.generic:LeastExecutorsScheduler",
    "least_weighted_delay": "stormwright.schedulers.least_weighted_delay:LeastWeightedDelayScheduler",
    "max_min": "stormwright.schedulers.generic:MaxMinScheduler",
    "metis": "stormwright.schedulers.metis:MetisScheduler",
    "min_min": "stormwright.schedulers.generic:MinMinScheduler",
    "minimum_degree": "stormwright.schedulers.minimum_degree:MinimumDegreeScheduler",
    "model_driven": "stormwright.schedulers.model_driven:ModelDrivenScheduler",
    "model_free": "stormwright.schedulers.model_free:ModelFreeScheduler",
    "n_version": "stormwright.schedulers.n_version:NVersionScheduler",
    "nearest_average_load": "stormwright.schedulers.generic:NearestAverageLoadScheduler",
    "offline": "stormwright.schedulers.offline:OfflineScheduler",
    "online": "stormwright.schedulers.online:OnlineScheduler",
    "optimizer": "stormwright.schedulers.optimizer:OptimizerScheduler",
    "p_scheduler": "stormwright.schedulers.p_scheduler:PSchedulerScheduler",
    "predictive": "stormwright.schedulers.predictive:PredictiveScheduler",
    "r_storm": "stormwright.schedulers.r_storm:RStormScheduler",
    "random": "stormwright.schedulers.generic:RandomScheduler",
    "round_robin": "stormwright.schedulers.generic:RoundRobinScheduler",
    "shortest_processing_time": "stormwright.schedulers.generic:ShortestProcessingTimeScheduler",
    "spread": "stormwright.schedulers.spread:SpreadScheduler",
    "t_storm": "stormwright.schedulers.t_storm:TStormScheduler",
    "tag_aware": "stormwright.schedulers.tag_aware:TagAwareScheduler",
    "top_storm": "stormwright.schedulers.top_storm:TopStormScheduler",
    "toss": "stormwright.schedulers.toss:TossScheduler",
    "weighted_round_robin": "stormwright.schedulers.generic:WeightedRoundRobinScheduler",
}


class SchedulerType(Protocol):
    """A registered class whose parameters are a `Params` dataclass; it may declare `Traits`."""

    params_type: type[Params]

    def __call__(self, params: Params) -> Scheduler:
        """Create the scheduler with these parameters."""
        ...


def scheduler_names() -> tuple[str, ...]:
    """Return every name that `make_scheduler` accepts, built-in ones first."""
    return (*SCHEDULERS, *(name for name in sorted(_plugins()) if name not in SCHEDULERS))


def scheduler_type(name: str) -> SchedulerType:
    """Return the class registered under `name`.

    Raises
    ------
    InputError
        Unknown name.
    MissingDependencyError
        It belongs to another package, and needs a package that is not installed.
    SchedulerError
        It belongs to another package, and is not a scheduler, or fails on import.
    """
    if name in SCHEDULERS:
        module, _, attribute = SCHEDULERS[name].partition(":")
        return cast(SchedulerType, getattr(import_module(module), attribute))
    plugin = _plugins().get(name)
    if plugin is None:
        raise InputError("scheduler", [Fault(_unknown(name), name)])
    return _loaded(name, plugin)


def traits_of(name: str) -> Traits:
    """Return the traits of the scheduler `name`; defaults for an unknown or broken one.

    A class of another package that declares nothing about tags is assumed to heed them.
    """
    try:
        kind = scheduler_type(name)
    except StormwrightError:
        return Traits(heeds_tags=True)
    return declared(kind, heeds_tags=name not in SCHEDULERS)


def variants_of(kind: object) -> Mapping[str, ParameterSet]:
    """Return the parameter sets that a scheduler class declares in `variants`, by name; none is the default."""
    return getattr(kind, "variants", {})


def make_scheduler(
    name: str,
    settings: Mapping[str, object] | Sequence[str] = (),
    seed: int | None = None,
    objective: str | None = None,
) -> Scheduler:
    """Return the scheduler `name` with its wrappers.

    `MultiTenantScheduler` serves topologies in the configured order and within the limits of their users,
    `NodeWeightScheduler` applies the weights of nodes, and `IsolatingScheduler` gives isolated topologies hosts of
    their own unless the class handles isolation itself. `PluginScheduler` guards a scheduler of another package.

    Parameters
    ----------
    settings
        Parameters, and options of all schedulers (`QueueRules`), by name, or as ``key=value`` texts. ``variant`` names
        one of the scheduler's parameter sets, whose values hold for parameters that are not given.
    seed
        Parameter `seed` of a randomised scheduler; ignored by others.
    objective
        Parameter `objective` of a scheduler that supports this one, unless `settings` name another, or require its
        default.

    Raises
    ------
    InputError
        An unknown name, or parameters that are unknown or out of range; all faults at once.
    MissingDependencyError
        The scheduler belongs to another package, and needs a package that is not installed.
    SchedulerError
        It belongs to another package, and is not a scheduler, or fails on import or creation.
    """
    kind, params, rules = _settled(name, settings, seed, objective)
    if name in SCHEDULERS:
        scheduler, traits = kind(params), declared(kind)
    else:
        with PluginGuard(f"scheduler {name!r} cannot be made"):
            traits = declared(kind, heeds_tags=True)
            scheduler = PluginScheduler(name, kind(params), params, traits)
    report_compilation()
    if traits.heeds_limits and not traits.handles_isolation:
        scheduler = IsolatingScheduler(scheduler, params, traits)
    return MultiTenantScheduler(name, NodeWeightScheduler(scheduler, params, traits), params, traits, rules)


def check_settings(name: str, settings: Sequence[str], seed: int | None = None) -> None:
    """Validate the settings of a scheduler without creating it; raises like `make_scheduler`."""
    _settled(name, settings, seed, None)


def _settled(
    name: str, settings: Mapping[str, object] | Sequence[str], seed: int | None, objective: str | None
) -> tuple[SchedulerType, Params, dict[str, object]]:
    """Return the class, its parameters and the options of all schedulers, as for `make_scheduler`."""
    kind = scheduler_type(name)
    values = dict(settings) if isinstance(settings, Mapping) else parse_settings(settings)
    own = [field.name for field in fields(kind.params_type)]
    if seed is not None and "seed" in own:
        values["seed"] = seed
    given = list(values)
    values, faults = _with_variant(kind, values)
    rules = {option: values.pop(option) for option in sorted(OPTIONS.difference(own)) if option in values}
    faults += [Fault(_no_parameter(option, own), option) for option in values if option not in own]
    values = {option: value for option, value in values.items() if option in own}
    try:
        QueueRules.from_settings(rules)
    except InputError as error:
        faults += error.faults
    try:
        if name in SCHEDULERS:
            params = _aimed(kind.params_type, values, objective)
        else:
            with PluginGuard(f"scheduler {name!r} cannot be made"):
                params = kind.params_type.from_settings(values)
    except InputError as error:
        faults += error.faults
    if faults:
        in_turn = sorted(faults, key=lambda fault: given.index(fault.path) if fault.path in given else len(given))
        raise InputError("scheduler parameters", in_turn)
    return kind, params, rules


def _with_variant(kind: SchedulerType, values: dict[str, object]) -> tuple[dict[str, object], list[Fault]]:
    """Return settings with the values of the variant that they name, if any, as defaults; else a fault."""
    variants = variants_of(kind)
    if VARIANT not in values or not variants:
        return values, []
    others = {option: value for option, value in values.items() if option != VARIANT}
    name = str(values[VARIANT])
    if name in variants:
        return {**variants[name].values, **others}, []
    return others, [Fault(f"unknown variant; there are {', '.join(variants)}", VARIANT)]


def _no_parameter(option: str, own: Sequence[str]) -> str:
    """Return the message for an option that is neither among `own` parameters nor an option of all schedulers."""
    if near := nearest(option, own):
        return f"unknown parameter; did you mean {near!r}?"
    if near := nearest(option, OPTIONS):
        return f"unknown parameter; did you mean {near!r}, an option of all schedulers?"
    of_all = f"all schedulers have {', '.join(sorted(OPTIONS))}"
    return f"unknown parameter; there are {', '.join(own)}, and {of_all}" if own else f"unknown parameter; {of_all}"


def _aimed(kind: type[Params], values: Mapping[str, object], objective: str | None) -> Params:
    """Return parameters with an objective, if supported."""
    knows = any(field.name == "objective" and objective in field.metadata["choices"] for field in fields(kind))
    if knows and "objective" not in values:
        with suppress(InputError):  # reported below, if unrelated to the objective
            return kind.from_settings({**values, "objective": objective})
    return kind.from_settings(values)


def _loaded(name: str, plugin: EntryPoint) -> SchedulerType:
    """Import the class of another package's scheduler."""
    what = f"scheduler {name!r} ({plugin.value}) cannot be loaded"
    with PluginGuard(what):
        try:
            kind = plugin.load()
        except (ImportError, AttributeError) as error:
            raise MissingDependencyError(f"{what}: {error}") from error
        if wrong := _no_scheduler(kind):
            raise SchedulerError(f"{what}: {wrong}")
        return cast(SchedulerType, kind)


def _no_scheduler(kind: object) -> str:
    """Return why an object is not a `SchedulerType`; empty if it is."""
    if not isinstance(kind, type) or not callable(getattr(kind, "schedule", None)):
        return f"it should be a class with a method schedule(problem), not {kind!r}"
    if not hasattr(kind, "params_type"):
        return (
            "its class should say `params_type = NoParams` (of stormwright.schedulers.toolkit.params), or a type "
            "of its own, and be made with those parameters: __init__(self, params)"
        )
    params = kind.params_type
    if not isinstance(params, type) or not issubclass(params, Params):
        return f"its params_type should be a class derived from Params, such as NoParams, not {params!r}"
    for field in fields(params):
        if not ({"text", "low", "high", "choices"} <= field.metadata.keys() and type(field.default) in KINDS):
            return f"its parameter {field.name!r} should be made with param() from a number, a text or a truth value"
    variants = variants_of(kind)
    if not isinstance(variants, Mapping) or any(not isinstance(each, ParameterSet) for each in variants.values()):
        return "its variants should be a mapping from names to ParameterSet"
    wrong = [of.name for of in fields(Traits) if type(getattr(kind, of.name, of.default)) is not type(of.default)]
    return f"its attribute {wrong[0]!r} should be of the type that Traits says" if wrong else ""


def parse_settings(settings: Sequence[str]) -> dict[str, object]:
    """Return ``key=value`` texts as a mapping; the last of equal keys wins.

    Raises
    ------
    InputError
        A text without ``=``.
    """
    faults = [Fault("should be key=value", text) for text in settings if "=" not in text]
    if faults:
        raise InputError("--set", faults)
    return {key.strip(): value.strip() for key, _, value in (text.partition("=") for text in settings)}


def _plugins() -> Mapping[str, EntryPoint]:
    return _found(entry_points)


@cache
def _found(look: Callable[..., EntryPoints]) -> Mapping[str, EntryPoint]:
    """Return the entry points, cached: the look-up opens a file of every installed package."""
    return {point.name: point for point in look(group=ENTRY_POINT_GROUP)}


def _unknown(name: str) -> str:
    names = scheduler_names()
    near = nearest(name, names)
    return f"unknown scheduler; did you mean {near!r}?" if near else f"unknown scheduler; there are {', '.join(names)}"


def extra_limits(assignment: Assignment) -> tuple[ExtraLimit, ...]:
    """Return the additional limits that the scheduler of an assignment observed.

    Raises
    ------
    InputError
        The assignment's parameters, which may come from a file, contain an invalid fraction of CPU.
    """
    traits = traits_of(assignment.scheduler)
    found: list[ExtraLimit] = []
    if name := traits.cpu_percent_parameter:
        percent = assignment.parameters.get(name, 100.0)
        if isinstance(percent, bool) or not isinstance(percent, int | float) or not 0 <= percent <= 100:
            fault = Fault(f"should be a number from 0 to 100, got {shown(percent)}", f"$.parameters.{name}")
            raise InputError("assignment", [fault])
        found.append(CpuShare(percent / 100))
    if traits.heeds_tags:
        found.append(Tags(traits.keeps_untagged_apart))
    return tuple(found)


def cpu_percent(name: str, scheduler: Scheduler) -> float:
    """Return the percentage of a node's CPU that the executors placed by a scheduler may use.

    Parameters
    ----------
    name
        Name of the scheduler, whose traits name the parameter.
    scheduler
        The scheduler with its parameters.
    """
    parameter = traits_of(name).cpu_percent_parameter
    return float(getattr(getattr(scheduler, "params", None), parameter, 100.0)) if parameter else 100.0
