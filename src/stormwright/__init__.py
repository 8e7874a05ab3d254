"""Decides where the executors of Apache Storm topologies run, and keeps that placement good.

::

    import stormwright as sw

    problem = sw.sketch({"words": "lines 2 -> split 4 -> count 4 fields"}, nodes=3)
    print(sw.place(problem, "optimizer", time_budget_s=1).summary())
    print(sw.compare(problem, "even,online,optimizer"))

Names are imported when they are used: `import stormwright` brings nothing along.
"""

__version__ = "0.1.0"

# For type checkers, which take the name of this constant as its meaning; `typing` would be an import.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from stormwright import datasets as datasets
    from stormwright.advise import CallableAdvise as _Advise
    from stormwright.api import Placement as Placement
    from stormwright.api import bound as bound
    from stormwright.api import compare as compare
    from stormwright.api import graph as graph
    from stormwright.api import place as place
    from stormwright.api import read_problem as read_problem
    from stormwright.api import simulate as simulate
    from stormwright.api import sweep as sweep
    from stormwright.api import tradeoff as tradeoff
    from stormwright.api import what_if as what_if
    from stormwright.errors import InputError as InputError
    from stormwright.errors import StormwrightError as StormwrightError
    from stormwright.formats import write_problem as write_problem
    from stormwright.formats.sketch import sketch as sketch
    from stormwright.model import Assignment as Assignment
    from stormwright.model import Component as Component
    from stormwright.model import Cost as Cost
    from stormwright.model import CostWeights as CostWeights
    from stormwright.model import Grouping as Grouping
    from stormwright.model import LoadProfile as LoadProfile
    from stormwright.model import Problem as Problem
    from stormwright.model import Supervisor as Supervisor
    from stormwright.model import Topology as Topology
    from stormwright.model import TopologyLoad as TopologyLoad
    from stormwright.model import Unplaced as Unplaced
    from stormwright.model import WorkerSlot as WorkerSlot
    from stormwright.predict import CallablePredict as _Predict
    from stormwright.schedulers import CallableSchedulers as _Schedulers

    advise: _Advise
    predict: _Predict
    schedulers: _Schedulers
else:
    #: Name → the module that has it: the imports above, on first use. A test compares the two.
    _HOMES = {
        **dict.fromkeys(
            (
                "bound",
                "compare",
                "graph",
                "place",
                "read_problem",
                "simulate",
                "sweep",
                "tradeoff",
                "what_if",
                "Placement",
            ),
            "api",
        ),
        "advise": "advise",  # packages that can be called
        "datasets": "datasets",
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

    def __getattr__(name):
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        home = import_module(f"{__name__}.{_HOMES[name]}")
        value = globals()[name] = home if name == _HOMES[name] else getattr(home, name)
        return value

    def __dir__():
        return sorted({*globals(), *_HOMES})
