"""Simulator: queueing networks, and a virtual cluster that reports like a real one, in virtual time.

::

    from stormwright.simulator import Exponential, Network, Source, Station

    network = Network({"cpu": Station(Exponential(0.7))}, Source("cpu", Exponential(1.0)))
    print(network.run(seconds=100_000, warm_up_s=1_000))

Names are imported when they are used: machine code takes a while to load.
"""

# For type checkers, which take the name of this constant as its meaning.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from stormwright.simulator.distributions import Deterministic as Deterministic
    from stormwright.simulator.distributions import Empirical as Empirical
    from stormwright.simulator.distributions import Exponential as Exponential
    from stormwright.simulator.distributions import Gamma as Gamma
    from stormwright.simulator.distributions import HyperExponential as HyperExponential
    from stormwright.simulator.distributions import LogNormal as LogNormal
    from stormwright.simulator.distributions import TwoMoments as TwoMoments
    from stormwright.simulator.network import Network as Network
    from stormwright.simulator.network import NetworkRun as NetworkRun
    from stormwright.simulator.network import Source as Source
    from stormwright.simulator.network import Station as Station
    from stormwright.simulator.network_result import NetworkResult as NetworkResult
    from stormwright.simulator.network_result import StationResult as StationResult
else:
    _DISTRIBUTIONS = (
        "Deterministic",
        "Empirical",
        "Exponential",
        "Gamma",
        "HyperExponential",
        "LogNormal",
        "TwoMoments",
    )
    #: Name → the module that has it: the imports above, on first use. A test compares the two.
    _HOMES = {
        **dict.fromkeys(_DISTRIBUTIONS, "distributions"),
        **dict.fromkeys(("Network", "NetworkRun", "Source", "Station"), "network"),
        **dict.fromkeys(("NetworkResult", "StationResult"), "network_result"),
    }

    __all__ = sorted(_HOMES)

    def __getattr__(name):
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        return value

    def __dir__():
        return sorted({*globals(), *_HOMES})
