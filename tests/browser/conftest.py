"""One Chromium for all tests of pages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.chromium import running_chromium


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    with running_chromium() as browser:
        yield browser
