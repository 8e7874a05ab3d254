"""What a service exports at ``/metrics``: name → the labels of its samples."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from stormwright.model import LoadProfile
from stormwright.model.load import assumed_load
from stormwright.plans.modes import Modes
from stormwright.service.dashboard.scene import Scene
from stormwright.service.http.cluster_metrics import DETAILS
from stormwright.service.http.metrics import Figures, metrics_text
from stormwright.service.plans.journal import Journal
from stormwright.service.plans.store import PlanStore
from stormwright.service.storage.database import FILE, State
from tests.controller.builders import on, problem, topology
from tests.service.http.test_metrics import STATUS

DEPLOY = Path(__file__).parents[2] / "deploy"


def expositions(directory: Path) -> dict[str, bytes]:
    """Detail → all metrics of a service that knows everything; `directory` is for its state."""
    state = State(directory / FILE)
    PlanStore(state).add("person", "throughput", "anna", "why", {})
    Journal(state).add_entry("modes", "anna", "why")
    wanted = topology("t")
    runs = problem([wanted], current={wanted.id: on("n0", "n1")})
    scene = Scene.of(runs.with_load(LoadProfile({wanted.id: assumed_load(wanted, runs.core_hz)})))
    figures = Figures(lambda: scene, lambda: 1.0, Modes, state)
    status = replace(STATUS, hold="missing", pair={"leads": "http://a:7070"})
    found = {detail: metrics_text(status, figures(detail)) for detail in DETAILS}
    state.close()
    return found


def exposed(directory: Path) -> dict[str, set[str]]:
    """Name of each metric → labels of its samples; `directory` is for the state of the service."""
    found: dict[str, set[str]] = {}
    for text in expositions(directory).values():
        for family in text_string_to_metric_families(text.decode()):
            for sample in family.samples:
                found.setdefault(sample.name, set()).update(sample.labels)
    return found
