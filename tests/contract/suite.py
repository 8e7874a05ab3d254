"""The contract as our own schedulers take it: on the cases, too."""

from __future__ import annotations

import numpy as np
import pytest

from stormwright import testing
from stormwright.model import UNPLACED
from tests.case_files import case_files, case_name, case_problem


class SchedulerContract(testing.SchedulerContract):
    """What other packages inherit, and cases that do not come with the package."""

    @pytest.mark.parametrize("path", case_files("peer"), ids=case_name)
    def test_takes_every_case_without_load(self, path):
        problem = case_problem(path)
        answer = self.answer(problem)
        assert np.count_nonzero(answer.slot_of_executor == UNPLACED) == len(answer.unplaced)
