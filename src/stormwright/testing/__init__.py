"""Test support for schedulers of any package: contract, problem strategies, and oracles.

Needs the extra ``testing``; nothing else of stormwright imports it.
"""

from stormwright.errors import MissingDependencyError

try:
    import hypothesis  # noqa: F401 (only looked for: its strategies are used by every module here)
    import pytest
except ImportError as error:
    raise MissingDependencyError(f"{error}; install it with: pip install 'stormwright[testing]'") from error

# Before the first import, so that its assertions show values like those of a test module.
pytest.register_assert_rewrite("stormwright.testing.contract", "stormwright.testing.contract")

from stormwright.testing.contract import SchedulerContract  # noqa: E402 (see above)

__all__ = ["SchedulerContract"]
