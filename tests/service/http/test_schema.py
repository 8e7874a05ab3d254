"""Whatever the API's own description allows, and much that it does not, is answered; never with a status of 500 on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings

from stormwright.service.access.limits import Rate
from stormwright.service.http.endpoints import ENDPOINTS
from stormwright.service.http.openapi import openapi
from tests.service.access.guarded import Guarded, guarded

SCHEMA = schemathesis.openapi.from_dict(openapi(ENDPOINTS))

#: Answers that the description has for every way to ask.
TOLD = {400, 401, 403, 404, 405, 409, 413, 429}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with guarded(tmp_path_factory.mktemp("state")) as found:
        found.door.failures = found.door.costly = Rate(10**9, 1e-9)
        yield found


@SCHEMA.parametrize()
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
def test_everything_is_answered(case: Any, service: Guarded) -> None:
    headers = {"authorization": f"Bearer {service.secrets['operator']}"}
    answer = case.call(base_url=f"http://{service.host}:{service.port}", headers=headers)
    assert answer.status_code in TOLD | {200, 202}, (answer.status_code, answer.text)
    assert answer.json() is not None
