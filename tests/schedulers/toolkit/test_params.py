"""Parameters: ranges checked on creation, texts parsed, all faults at once."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest

from stormwright.errors import InputError
from stormwright.schedulers.toolkit.params import NoParams, Params, param


@dataclass(frozen=True, kw_only=True)
class Some(Params):
    alpha: float = param(0.5, "a part", low=0, high=1)
    rounds: int = param(3, "how often", low=1)
    fast: bool = param(False, "quick and dirty")
    mode: str = param("x", "which")
    ceiling: float = param(1.0, "at most", high=9)


def faults_of(error: pytest.ExceptionInfo[InputError]) -> dict[str, str]:
    return {fault.path: fault.message for fault in error.value.faults}


def test_texts_become_values_of_the_right_type():
    params = Some.from_settings({"alpha": "0.25", "rounds": "7", "fast": "True", "mode": "y"})
    assert params == Some(alpha=0.25, rounds=7, fast=True, mode="y")


def test_non_string_values_are_accepted_unchanged():
    assert Some.from_settings({"alpha": 1, "rounds": 2}) == Some(alpha=1, rounds=2)


def test_all_faults_at_once():
    with pytest.raises(InputError) as error:
        Some.from_settings(
            {"alpha": "2", "rounds": "1.5", "fast": "perhaps", "mode": 3, "ceiling": 10, "round": "1", "zzz": "1"}
        )
    assert faults_of(error) == {
        "alpha": "should be from 0 to 1, got 2.0",
        "rounds": "should be an integer, got '1.5'",
        "fast": "should be true or false, got 'perhaps'",
        "mode": "should be a string, got 3",
        "ceiling": "should be at most 9, got 10",
        "round": "unknown parameter; did you mean 'rounds'?",
        "zzz": "unknown parameter; there are alpha, rounds, fast, mode, ceiling",
    }


@pytest.mark.parametrize("value", [-0.1, 1.1, math.nan, math.inf, True, "0.5", None])
def test_creation_checks_type_and_range(value):
    with pytest.raises(InputError) as error:
        Some(alpha=value)
    assert list(faults_of(error)) == ["alpha"]


def test_creation_names_all_faults():
    with pytest.raises(InputError) as error:
        Some(alpha=3, rounds=0)
    assert faults_of(error) == {"alpha": "should be from 0 to 1, got 3", "rounds": "should be at least 1, got 0"}


def test_no_parameters():
    with pytest.raises(InputError) as error:
        NoParams.from_settings({"alpha": "1"})
    assert faults_of(error) == {"alpha": "unknown parameter; there are none"}
