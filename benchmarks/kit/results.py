"""Results as files: every figure with its date, commit and machine, written by the benchmark that measured it."""

from __future__ import annotations

import json
import logging
import os
import platform
import subprocess
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

#: Directory of results: in the documentation, or $STORMWRIGHT_RESULTS.
DIRECTORY = Path(os.environ.get("STORMWRIGHT_RESULTS") or ROOT / "docs" / "results")


def write_results(
    name: str, title: str, rows: Sequence[tuple[str, str, str]], details: dict[str, Any], picture: str = ""
) -> None:
    """Write ``NAME.md`` (figure, target, measured value) and ``NAME.json``, and print the table.

    With a `picture`, its description, the page has ``NAME.svg`` above the table.
    """
    header = stamp()
    lines = [f"# {title}", "", ", ".join(f"{key} {value}" for key, value in header.items()), ""]
    lines += [f"![{picture}]({name}.svg)", ""] if picture else []
    lines += ["| figure | asked for | measured |", "|---|---|---|"]
    lines += [f"| {what} | {wanted} | {found} |" for what, wanted, found in rows]
    text = "\n".join(lines) + "\n"
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    (DIRECTORY / f"{name}.md").write_text(text, encoding="utf-8")
    document = {**header, "figures": [dict(zip(("figure", "asked", "measured"), row, strict=True)) for row in rows]}
    (DIRECTORY / f"{name}.json").write_text(json.dumps({**document, **details}, indent=1) + "\n", encoding="utf-8")
    print(text)


def show_progress() -> None:
    """Log progress, without the calls to Spark's JVM."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s  %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)


def stamp() -> dict[str, str]:
    """Return date, commit, machine, and its speed today: with other guests it may be half as fast as yesterday."""
    commit = _git("rev-parse", "--short", "HEAD")
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": commit + (" with changes" if _git("status", "--porcelain", "--", "src", "java") else ""),
        "machine": f"{_cpu()}, {os.cpu_count()} cores, {_memory_gib():.0f} GiB, {platform.system()}",
        "python": platform.python_version(),
        "java": _java(),
        "a fixed loop of Python": f"{_loop_ms():.0f} ms",
    }


def _git(*args: str) -> str:
    return subprocess.run(["git", *args], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _loop_ms(runs: int = 5) -> float:
    """CPU time of a million steps, the best of some runs."""
    best = float("inf")
    for _ in range(runs):
        begin, total = time.process_time(), 0
        for step in range(1_000_000):
            total += step * step % 7
        best = min(best, time.process_time() - begin)
    return best * 1e3


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def _java() -> str:
    shown = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
    return shown.splitlines()[0].partition('"')[2].rstrip('"').split('"')[0]
