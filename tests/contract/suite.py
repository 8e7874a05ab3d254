"""The contract as our own schedulers take it: on the cases, too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from stormwright import testing
from stormwright.model import UNPLACED
from tests.case_files import case_files, case_name, case_problem


def _is_large(path: Path) -> bool:
    """Of a thousand executors or more, for which searches take seconds."""
    return case_name(path).startswith("large") or case_name(path).endswith("-1000")


LARGE = [path for path in case_files("peer") if _is_large(path)]
OTHERS = [path for path in case_files("peer") if not _is_large(path)]


class SchedulerContract(testing.SchedulerContract):
    """What other packages inherit, and cases that do not come with the package."""

    def test_takes_every_case_without_load(self):
        """In one test: as many items as there are cases and ways take longer than the answers."""
        assert OTHERS
        for path in OTHERS:
            self._takes(path)

    @pytest.mark.slow
    @pytest.mark.parametrize("path", LARGE, ids=case_name)
    def test_takes_large_cases_without_load(self, path):
        self._takes(path)

    def _takes(self, path):
        problem = case_problem(path)
        answer = self.answer(problem)
        assert np.count_nonzero(answer.slot_of_executor == UNPLACED) == len(answer.unplaced), case_name(path)
