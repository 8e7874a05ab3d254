"""Decides where the executors of Apache Storm topologies run, and keeps that placement good.

::

    import stormwright as sw

    problem = sw.sketch({"words": "lines 2 -> split 4 -> count 4 fields"}, nodes=3)
    print(sw.place(problem, "optimizer", time_budget_s=1).summary())
    print(sw.compare(problem, "even,online,optimizer"))

Names are imported when they are used: `import stormwright` brings nothing along.
"""

__version__ = "0.1.0"

#: Name → the module that has it.
_HOMES = {
    **dict.fromkeys(("bound", "compare", "place", "read_problem", "tradeoff", "what_if", "Placement"), "api"),
    "predict": "predict",
    "schedulers": "schedulers",
    "sketch": "formats.sketch",
    "write_problem": "formats",
    "StormwrightError": "errors",
    "InputError": "errors",
    **dict.fromkeys(
        (
            "Assignment",
            "Component",
            "Cost",
            "CostWeights",
            "Grouping",
            "LoadProfile",
            "Problem",
            "Supervisor",
            "Topology",
            "TopologyLoad",
            "Unplaced",
            "WorkerSlot",
        ),
        "model",
    ),
}

__all__ = ["__version__", *sorted(_HOMES)]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    home = import_module(f"{__name__}.{_HOMES[name]}")
    value = getattr(home, name, home)  # `schedulers` and `predict` are packages that can be called
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
