"""Properties that many test with the same examples."""

from __future__ import annotations

import traceback

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.database import DirectoryBasedExampleDatabase
from hypothesis.errors import FailedHealthCheck

from stormwright.testing import shared
from stormwright.testing.shared import for_any, only_if

NUMBERS = st.integers(0, 10_000)


@pytest.fixture(autouse=True)
def _thirty_without_database():
    """Examples of a property; none of these failures is to be tried first another time."""
    before = settings.default
    settings.register_profile("thirty", before, max_examples=30, database=None, derandomize=False)
    settings.load_profile("thirty")
    yield
    settings.load_profile("stormwright")
    assert settings.default is before


def message_of(error: pytest.ExceptionInfo[BaseException]) -> str:
    return "".join(traceback.format_exception(error.value))


def test_properties_share_examples_within_but_not_across_processes():
    def a_property():
        @for_any(number=NUMBERS)
        def holds(numbers, number):
            numbers.append(number)

        return holds

    found = []
    for test in [a_property(), a_property()]:
        first: list[int] = []
        second: list[int] = []
        test(first)
        test(numbers=second)
        assert first == second
        assert len(set(first)) == 30
        found.append(first)
    assert found[0] != found[1]


def test_properties_of_one_for_any_call_share_examples():
    each = for_any(number=NUMBERS)

    @each
    def holds(numbers, number):
        numbers.append(number)

    @each
    def holds_too(numbers, number):
        only_if(number % 2)
        numbers.append(number)

    first: list[int] = []
    second: list[int] = []
    holds(first)
    holds_too(second)
    assert len(second) == 30
    odd = [number for number in first if number % 2]
    assert second[: len(odd)] == odd


def test_derandomized_profile_generates_identical_examples():
    found = []
    for _ in range(2):
        settings.register_profile("same", settings.default, derandomize=True)
        settings.load_profile("same")

        @for_any(number=NUMBERS)
        def holds(numbers, number):
            numbers.append(number)

        found.append([])
        holds(found[-1])
    assert found[0] == found[1]
    assert len(found[0]) == 30


def test_for_any_accepts_an_example_count():
    @for_any(7, number=NUMBERS)
    def holds(numbers, number):
        numbers.append(number)

    numbers: list[int] = []
    holds(numbers)
    assert len(numbers) == 7


def test_an_object_may_take_fewer():
    class Quick:
        examples = None

        def __init__(self):
            self.numbers: list[int] = []

        @for_any(number=NUMBERS)
        def test_it(self, number):
            self.numbers.append(number)

    class Slow(Quick):
        examples = 5

    quick, slow = Quick(), Slow()
    quick.test_it()
    slow.test_it()
    assert len(quick.numbers) == 30
    assert slow.numbers == quick.numbers[:5]


def test_signature_for_pytest_omits_generated_parameters():
    @for_any(number=NUMBERS)
    def holds(self, name, number):
        """What it says."""

    assert str(shared.inspect.signature(holds)) == "(self, name)"
    assert (holds.__name__, holds.__doc__) == ("holds", "What it says.")
    assert [mark.name for mark in holds.pytestmark] == ["hypothesis"]


def test_failing_example_is_shrunk():
    @for_any(number=NUMBERS)
    def holds(limit, number):
        assert number < limit, "too much"

    holds(10_001)
    with pytest.raises(AssertionError, match="too much") as error:
        holds(777)
    assert "number=777" in message_of(error)


def test_failure_only_with_shared_examples_is_reported_as_such():
    @for_any(numbers=st.lists(NUMBERS))
    def holds(numbers):
        assert "spoiled" not in numbers
        numbers.append("spoiled")

    holds()
    with pytest.raises(AssertionError) as error:
        holds()
    assert "others were tested with before" in message_of(error)


def test_filtered_property_runs_the_full_number_of_matching_examples():
    @for_any(number=NUMBERS)
    def holds(numbers, part, number):
        only_if(number % part == 0)
        numbers.append(number)

    for part in (1, 3, 5):
        numbers: list[int] = []
        holds(numbers, part)
        assert len(numbers) == 30
        assert all(number % part == 0 for number in numbers)


def test_filter_without_matching_examples_fails_the_health_check():
    @for_any(number=NUMBERS)
    def holds(number):
        only_if(number < 0)

    with pytest.raises(FailedHealthCheck):
        holds()


def test_a_test_may_skip():
    @for_any(number=NUMBERS)
    def holds(number):
        pytest.skip("not here")

    with pytest.raises(pytest.skip.Exception, match="not here"):
        holds()


def test_previously_failing_example_is_tried_first(tmp_path):
    settings.register_profile("kept", settings.default, database=DirectoryBasedExampleDatabase(tmp_path / "kept"))
    settings.load_profile("kept")
    numbers: list[int] = []
    wrong = set(range(4000, 10_001))

    @for_any(number=NUMBERS)
    def holds(number):
        numbers.append(number)
        assert number not in wrong

    with pytest.raises(AssertionError):
        holds()
    wrong -= set(range(4001, 10_001))
    numbers.clear()
    with pytest.raises(AssertionError) as error:
        holds()
    assert numbers[0] == 4000
    assert "number=4000" in message_of(error)


def test_each_property_generates_its_own_examples_above_the_sharing_limit(monkeypatch):
    monkeypatch.setattr(shared, "MAX_SHARED", 29)

    @for_any(number=NUMBERS)
    def holds(numbers, number):
        numbers.append(number)

    found: list[list[int]] = [[], []]
    for numbers in found:
        holds(numbers)
    assert found[0] != found[1]
    assert [len(set(numbers)) for numbers in found] == [30, 30]
