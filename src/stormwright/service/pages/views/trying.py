"""Questions about what runs: schedulers compared, and what a change would bring."""

from __future__ import annotations

from stormwright.service.pages.seen.known import Known
from stormwright.service.pages.views.page import Page


def trying(known: Known) -> Page:
    """The two forms, and the questions that were asked."""
    trials = known.sources.trials
    shows = {
        "schedulers": trials.schedulers() if trials else {},
        "can": trials is not None,
        "trials": known.trials.trials(),
        "scene": known.scene(),
    }
    return Page("trying", "Try", "stormwright compare problem.json", shows, "/try")


def tried(known: Known, name: str) -> Page:
    """A question and its answer."""
    trial = known.trials.trial(name)
    return Page("tried", trial.title, trial.command, {"trial": trial}, "/try")
