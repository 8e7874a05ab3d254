"""What Flux and Storm themselves make of drawn Flux files: the cases of ``tests/formats/storm/test_random_flux.py``.

``python tools/flux_answers.py tests/formats/storm/flux/random.json.gz`` draws the files, half of them with values and
shapes that are not as they should be, and has ``FluxAnswers.java`` submit them to the classes of Flux 2.8.3 and Storm
2.8.3, which Maven fetches. A file counts only if its fate follows from the file: not if Java lacks a class that it
names, or a field that only a class declares.
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

ROOT = Path(__file__).parents[1]
STORM, VERSION, COUNT, SEED = "org.apache.storm", "2.8.3", 2400, 20261130

#: What depends on classes, or on the memory of this process.
NOT_OF_THE_FILE = ("non-existent fields", "ClassNotFoundException", "OutOfMemoryError")

SPOUT, BOLT = (f"{STORM}.testing.{name}" for name in ("TestWordSpout", "TestWordCounter"))

#: Values that stand where others should, as people and templates write them.
ODD = (
    *("0", "-1", "1", "2", "7", '"4"', "'2'", "1.0", "2.5", "1e2", "0x10", "010", "0b11", "1_000", "1:30", "~", "null"),
    *("", "true", "yes", "on", "No", '"true"', "[1]", "{a: 1}", ".inf", ".nan", "2147483647", "2147483648", '"08"'),
    *("9223372036854775808", " 5 ", "+3", '"1e2"', "abc", '!!int "3"', "!!str 3", "!!float 2", "2001-01-01"),
)

#: Key of a topology's configuration → usual values.
CONFIG = {
    **dict.fromkeys(
        (
            *("topology.workers", "topology.acker.executors", "topology.max.task.parallelism", "topology.tasks"),
            *("topology.eventlogger.executors", "topology.component.cpu.pcore.percent", "topology.priority"),
            "topology.component.resources.onheap.memory.mb",
            "topology.component.resources.offheap.memory.mb",
            *("topology.worker.max.heap.size.mb", "topology.max.spout.pending", "topology.message.timeout.secs"),
            *("topology.acker.cpu.pcore.percent", "topology.acker.resources.onheap.memory.mb", "my.own.key"),
            *("topology.producer.batch.size", "topology.state.checkpoint.interval.ms"),
        ),
        ("1", "2", "3", "5", "100"),
    ),
    "topology.component.resources.map": ("{gpu.count: 1, cpu.pcore.percent: 20}",),
    "topology.metrics.consumer.register": (f"[{{class: {STORM}.metric.LoggingMetricsConsumer, parallelism.hint: 2}}]",),
    "topology.debug": ("false",),
    "topology.submitter.user": ("me",),
    "topology.spread.components": ("[b1]",),
    "topology.ras.one.executor.per.worker": ("true",),
    "topology.worker.childopts": ("-Xmx256m",),
}

GROUPINGS = ("SHUFFLE", "FIELDS", "ALL", "GLOBAL", "LOCAL_OR_SHUFFLE", "NONE", "DIRECT")


class FluxFile:
    """One drawn file.

    Parameters
    ----------
    random
        Source of all choices.
    oddness
        Part of the choices that are odd, relative to the oddest file.
    """

    def __init__(self, random: Random, oddness: float) -> None:
        self._random, self._oddness = random, oddness
        self._spouts = [f"s{number}" for number in range(random.randint(1, 3))]
        self._bolts = [f"b{number}" for number in range(random.randint(0, 4))]
        if self._bolts and self._odd(0.1):
            self._bolts[0] = "s0"
        if len(self._bolts) > 1 and self._odd(0.08):
            self._bolts[1] = self._bolts[0]

    def text(self) -> str:
        """Return the file."""
        lines = list(self._lines())
        if self._odd(0.06):
            extra = ("extra: 1", "components: []", "components: ~", "includes: []", "bolts: ~", "---", "...", "# end")
            lines.append(self._random.choice(extra))
        text = "\n".join(lines) + "\n"
        if self._odd(0.06):
            at = self._random.randrange(len(text))
            text = text[:at] + self._random.choice('\t :}["#\n%\u00e9') + text[at:]
        return text

    def _lines(self) -> Iterator[str]:
        if not self._odd(0.06):
            name = self._random.choice(("t", '"x y"', "1", "a.b", "a/b", "~", '""', "yes", '"ünï"'))
            yield f"name: {name if self._odd(0.4) else 'topo'}"
        if self._random.random() < 0.7:
            keys = self._random.sample(sorted(CONFIG), self._random.randint(0, 4))
            yield "config:" if keys else f"config: {self._random.choice(('~', '[]', 'x')) if self._odd(0.5) else '{}'}"
            for key in keys:
                yield f"  {key}: {self._value(self._random.choice(CONFIG[key]), 0.5)}"
        yield "spouts:"
        yield from (self._component(name, SPOUT) for name in self._spouts)
        if self._bolts:
            yield "bolts:"
            yield from (self._component(name, BOLT) for name in self._bolts)
            yield "streams:"
            yield from (self._stream() for _ in range(self._random.randint(1, 6)))

    def _component(self, name: str, class_name: str) -> str:
        parts = [f"id: {name}", f"className: {class_name}"]
        chances = {"parallelism": 0.6, "numTasks": 0.25}
        chances |= dict.fromkeys(("cpuLoad", "onHeapMemoryLoad", "offHeapMemoryLoad"), 0.15)
        for key, chance in chances.items():
            if self._random.random() < chance:
                parts.append(f"{key}: {self._value(self._random.choice('12346'), 0.15)}")
        others = ("unknown: 3", "id: other", "constructorArgs: []", "configMethods: []")
        parts += [part for part in others if self._odd(0.06)]
        if self._odd(0.06):
            parts.pop(self._random.randrange(2))
        if self._random.random() < 0.5:
            return f"  - {{{', '.join(parts)}}}"
        return "  - " + "\n    ".join(parts)

    def _stream(self) -> str:
        source, to = self._random.choice(self._spouts + self._bolts), self._random.choice(self._bolts)
        source = "nobody" if self._odd(0.08) else source
        to = self._random.choice([*self._spouts, "nobody"]) if self._odd(0.08) else to
        kind = self._random.choice(GROUPINGS)
        if self._odd(0.12):
            kind = self._random.choice(("shuffle", "Fields", "CUSTOM", "PARTIAL_KEY", '"SHUFFLE"', "", "~", "3"))
        grouping = [f"type: {kind}"]
        if kind == "FIELDS" and not self._odd(0.1):
            args = self._random.choice(("[]", "word", "~", '["word"]', "{a: b}")) if self._odd(0.5) else "[word]"
            grouping.append(f"args: {args}")
        if self._odd(0.16):
            grouping.append(f"streamId: {self._random.choice(('default', '~', chr(34) * 2))}")
        parts = [f"from: {source}", f"to: {to}", f"grouping: {{{', '.join(grouping)}}}"]
        if self._odd(0.06):
            parts.pop(self._random.randrange(3))
        if self._odd(0.06):
            parts.append("extra: 1")
        return f"  - {{{', '.join(parts)}}}"

    def _odd(self, chance: float) -> bool:
        return self._random.random() < chance * self._oddness

    def _value(self, usual: str, chance: float) -> str:
        return self._random.choice(ODD) if self._odd(chance) else usual


def main() -> None:
    random = Random(SEED)  # noqa: S311  # drawn again alike
    drawn = [FluxFile(random, random.choice((0.0, 0.12, 0.12, 0.4))).text() for _ in range(COUNT)]
    cases = []
    for text, answer in zip(drawn, _answers(drawn), strict=True):
        if not any(each in answer.get("error", "") for each in NOT_OF_THE_FILE):
            cases.append({"flux": text, **_of_topology(answer)})
    target = Path(sys.argv[1])
    target.write_bytes(gzip.compress(json.dumps(cases, separators=(",", ":")).encode(), mtime=0))
    refused = sum("error" in case for case in cases)
    print(f"{target}: {len(cases):,} files, {refused:,} of them refused")


def _of_topology(answer: dict[str, object]) -> dict[str, object]:
    """Return what a test compares."""
    topology = answer.get("topology")
    if not isinstance(topology, dict):
        return answer
    components = [{k: v for k, v in each.items() if k not in ("code", "conf")} for each in topology["components"]]
    return {
        "topology": {**{k: topology[k] for k in ("name", "num_workers", "executor_runs")}, "components": components}
    }


def _answers(drawn: list[str]) -> list[dict[str, object]]:
    jars = [_jar(f"{STORM}:flux-core:{VERSION}"), _jar("org.yaml:snakeyaml:2.4")]
    (own,) = (ROOT / "java" / "target").glob("stormwright-storm-*.jar")
    with tempfile.TemporaryDirectory() as directory:
        path = ":".join(map(str, (ROOT / "build" / "storm" / "lib" / "*", own, *jars, directory)))
        source = ROOT / "tools" / "FluxAnswers.java"
        subprocess.run(["javac", "-nowarn", "-cp", path, "-d", directory, source], check=True)
        files = [Path(directory) / f"{number}.yaml" for number in range(len(drawn))]
        for file, text in zip(files, drawn, strict=True):
            file.write_text(text)
        command = ["java", "-Xmx400m", "-cp", path, "stormwright.FluxAnswers"]
        done = subprocess.run(
            command, input="\n".join(map(str, files)), capture_output=True, text=True, check=True, cwd=directory
        )
    return [json.loads(line) for line in done.stdout.splitlines()]


def _jar(artifact: str) -> Path:
    subprocess.run(["mvn", "-q", "dependency:get", f"-Dartifact={artifact}", "-Dtransitive=false"], check=True)
    group, name, version = artifact.split(":")
    return Path.home() / ".m2" / "repository" / group.replace(".", "/") / name / version / f"{name}-{version}.jar"


if __name__ == "__main__":
    main()
