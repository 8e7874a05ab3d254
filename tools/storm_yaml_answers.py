"""What Storm makes of drawn ``storm.yaml`` files: the cases of ``tests/formats/storm/test_random_storm_yaml.py``.

``python tools/storm_yaml_answers.py tests/formats/storm/random_storm_yaml.json.gz`` draws the files, half of them with
values and shapes that are not as they should be, and has ``StormYamlAnswers.java`` read them with the classes of Storm
2.8.3, from the reading of the file to the serialized heartbeat of a supervisor.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

from flux_answers import ODD, ROOT

COUNT, SEED = 2400, 20261201

#: Key → usual values.
USUAL = {
    "supervisor.slots.ports": ("[6700, 6701]", "[6700]", "[]", "\n  - 6700\n  - 6701\n  - 6702", "[6703, 6700]"),
    "supervisor.cpu.capacity": ("100", "400.0", "250.5", "1e3"),
    "supervisor.memory.capacity.mb": ("1024", "4096.0", "16384"),
    "supervisor.resources.map": (
        *("{gpu.count: 2}", "{cpu.pcore.percent: 200}", "{memory.mb: 900.0, gpu.count: 1}", "{}"),
        "\n  network.resource.units: 100.0\n  supervisor.cpu.capacity: 50",
    ),
    "supervisor.scheduler.meta": ("{tags: gpu}", '{tags: "a, b", rank: "3"}', "{}", "\n  zone: west"),
    "storm.local.hostname": ("node-a", '"10.0.0.1"', "node.example.org"),
    "storm.zookeeper.servers": ("[zk1, zk2]", "\n  - zk1"),
    "storm.local.dir": ("/var/storm",),
    "nimbus.seeds": ('["a", "b"]',),
    "topology.workers": ("2",),
    "worker.childopts": ('"-Xmx%HEAP-MEM%m"', "-Xmx700m"),
    "supervisor.enable": ("true",),
    "my.own.key": ("1", "[a]", "{b: c}"),
}

#: Parts of lists and objects that are odd.
ODD_SHAPES = (
    *(
        "[6700, 6700]",
        "[a]",
        "[6700.0]",
        "[-1]",
        "[0]",
        "[70000]",
        "[~]",
        "[[6700]]",
        "6700",
        '"6700,6701"',
        "{6700: 1}",
    ),
    *("{gpu.count: ~}", "{gpu.count: two}", '{gpu.count: "2"}', "{gpu.count: -1}", "{1: 2}", "{~: 2}", "{true: 1}"),
    *("{tags: 3}", "{tags: ~}", "{tags: [a]}", "{tags: true}", "{tags: {a: b}}", "{cpu.pcore.percent: 0}", "[1, 2]"),
)


class StormYamlFile:
    """One drawn file; `oddness` is the part of its choices that are odd, relative to the oddest file."""

    def __init__(self, random: Random, oddness: float) -> None:
        self._random, self._oddness = random, oddness

    def text(self) -> str:
        """Return the file."""
        keys = self._random.sample(sorted(USUAL), self._random.randint(0, len(USUAL)))
        lines = [line for key in keys for line in self._entry(key)]
        if self._odd(0.1):
            extra = (
                "---",
                "...",
                "# end",
                "x",
                "- a",
                "a: b: c",
                "\tx: 1",
                "storm.local.hostname: twice",
                "<<: {a: 1}",
                "!!x y",
            )
            lines.insert(self._random.randint(0, len(lines)), self._random.choice(extra))
        text = "\n".join(lines) + "\n"
        if self._odd(0.1):
            at = self._random.randrange(len(text))
            text = text[:at] + self._random.choice('\t :}["#\n%\u00e9') + text[at:]
        return text

    def _entry(self, key: str) -> Iterator[str]:
        value = self._random.choice(USUAL[key])
        if self._odd(0.25):
            value = self._random.choice((*ODD, *ODD_SHAPES))
        yield f"{key}: {value}"

    def _odd(self, chance: float) -> bool:
        return self._random.random() < chance * self._oddness


def main() -> None:
    random = Random(SEED)  # noqa: S311  # drawn again alike
    drawn = [StormYamlFile(random, random.choice((0.0, 0.3, 0.3, 1.0))).text() for _ in range(COUNT)]
    cases = [{"yaml": text, **answer} for text, answer in zip(drawn, _answers(drawn), strict=True)]
    target = Path(sys.argv[1])
    target.write_bytes(gzip.compress(json.dumps(cases, separators=(",", ":")).encode(), mtime=0))
    print(f"{target}: {len(cases):,} files, {sum('error' in case for case in cases):,} of them refused")


def _answers(drawn: list[str]) -> list[dict[str, object]]:
    with tempfile.TemporaryDirectory() as directory:
        path = ":".join(map(str, (ROOT / "build" / "storm" / "lib" / "*", directory)))
        source = ROOT / "tools" / "StormYamlAnswers.java"
        subprocess.run(["javac", "-nowarn", "-cp", path, "-d", directory, source], check=True)
        files = [Path(directory) / f"{number}.yaml" for number in range(len(drawn))]
        for file, text in zip(files, drawn, strict=True):
            file.write_text(text, encoding="utf-8")
        command = ["java", "-Xmx400m", "-cp", path, "stormwright.StormYamlAnswers"]
        done = subprocess.run(
            command, input="\n".join(map(str, files)), capture_output=True, text=True, check=True, cwd=directory
        )
    return [json.loads(line) for line in done.stdout.splitlines()]


if __name__ == "__main__":
    main()
