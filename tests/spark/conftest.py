"""The clusters of all tests here, and what runs on them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pipeline.generator import deliver, dice, land, make_world, records
from tests.spark import clusters
from tests.spark.clusters import Standalone
from tests.workbench import stand_in

#: Of landed records.
START_MS = 1_690_000_000_000


@pytest.fixture(scope="session")
def plugins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory for PYTHONPATH, which offers the stand-in scheduler."""
    return stand_in.offer(tmp_path_factory.mktemp("plugins"))


@pytest.fixture(scope="session")
def standalone(tmp_path_factory: pytest.TempPathFactory, plugins: Path) -> Iterator[Standalone]:
    with clusters.standalone(tmp_path_factory.mktemp("standalone"), plugins) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def connect_server(tmp_path_factory: pytest.TempPathFactory, plugins: Path) -> Iterator[str]:
    with clusters.connect_server(tmp_path_factory.mktemp("connect"), plugins) as url:
        yield url


@pytest.fixture(scope="session")
def landing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Landed files with lines of every kind, twice, out of order and late."""
    rng = dice(21)
    delivery = deliver(records(make_world(21), START_MS, 30, rng), rng, spoil=0.1, held=0.05)
    directory = tmp_path_factory.mktemp("landed") / "landing"
    for file in delivery.in_files(30):
        land(directory, (line.body for line in file), file[-1].arrived_ms)
    return directory
