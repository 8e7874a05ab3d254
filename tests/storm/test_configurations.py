"""Random configurations that may be sent to Nimbus, beside Storm's own classes that workers build at their start."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

from stormwright.controller.configuration import CHANGEABLE, _OneOf, require_sound_conf
from stormwright.errors import InputError
from stormwright.storm.jvm import STORM_HOME
from tests.controller.test_configuration import T, running

#: Builds the queues and waits of a worker from a configuration, as `Executor`, `WorkerState` and `WorkerTransfer` do.
WORKER = """
import java.nio.file.*;
import java.util.*;
import net.minidev.json.JSONValue;
import org.apache.storm.Config;
import org.apache.storm.metrics2.StormMetricRegistry;
import org.apache.storm.policy.IWaitStrategy;
import org.apache.storm.utils.*;
import org.apache.storm.validation.ConfigValidation;

public class WorkerParts {
    public static void main(String[] args) throws Exception {
        List<?> confs = (List<?>) JSONValue.parse(Files.readString(Path.of(args[0])));
        Map<String, Object> defaults = Utils.readDefaultConfig();
        for (Object each : confs) {
            Map<String, Object> conf = new HashMap<>(defaults);
            conf.putAll((Map<String, Object>) each);
            String fault = "";
            try {
                ConfigValidation.validateFields(conf);
                IWaitStrategy pressed = IWaitStrategy.createBackPressureWaitStrategy(conf);
                ReflectionUtils.newInstance((String) conf.get(Config.TOPOLOGY_BOLT_WAIT_STRATEGY));
                ReflectionUtils.newInstance((String) conf.get(Config.TOPOLOGY_SPOUT_WAIT_STRATEGY));
                int overflow = ObjectReader.getInt(conf.get(Config.TOPOLOGY_EXECUTOR_OVERFLOW_LIMIT));
                queue(conf, Config.TOPOLOGY_EXECUTOR_RECEIVE_BUFFER_SIZE, overflow, Config.TOPOLOGY_PRODUCER_BATCH_SIZE,
                        pressed);
                queue(conf, Config.TOPOLOGY_TRANSFER_BUFFER_SIZE, 0, Config.TOPOLOGY_TRANSFER_BATCH_SIZE, pressed);
                ObjectReader.getInt(conf.get(Config.TOPOLOGY_MAX_SPOUT_PENDING), 0);
                ObjectReader.getInt(conf.get(Config.TOPOLOGY_MESSAGE_TIMEOUT_SECS));
                ObjectReader.getLong(conf.get(Config.TOPOLOGY_BATCH_FLUSH_INTERVAL_MILLIS));
                Math.floorMod(1, (int) (1 / ObjectReader.getDouble(conf.get(Config.TOPOLOGY_STATS_SAMPLE_RATE))));
            } catch (Throwable e) {
                fault = e.toString();
            }
            System.out.println(JSONValue.toJSONString(fault));
        }
        System.exit(0);
    }

    static void queue(Map<String, Object> conf, String size, int overflow, String batch, IWaitStrategy pressed) {
        int slots = ObjectReader.getInt(conf.get(size)), together = ObjectReader.getInt(conf.get(batch));
        if (together > slots / 2) {  // WorkerTransfer and Executor
            throw new IllegalArgumentException(batch + " " + together + " of " + slots);
        }
        StormMetricRegistry metrics = new StormMetricRegistry();
        new JCQueue("q", "q", slots, overflow, together, pressed, "t", "c", List.of(1), 6700, metrics);
    }
}
"""

HOSTILE = [None, "", "x", -1, 0, 1, 0.5, 2**31, 2**40, 1e300, True, [], {}, ["a"], "1000", float(10**6), 64, 4096]
MORE = ["topology.transfer.batch.size", "topology.workers", "topology.acker.executors", "storm.zookeeper.servers",
        "topology.kryo.register", "topology.name", "topology.classpath", "topology.max.task.parallelism"]  # fmt: skip


def random_values(rng: random.Random) -> dict[str, Any]:
    """Values of one to five keys: usual ones, those at the ends of their ranges, and hostile ones."""
    found = dict[str, Any]()
    for key in rng.sample([*CHANGEABLE, *MORE], rng.randint(1, 5)):
        allowed = CHANGEABLE.get(key)
        usual: list[Any] = []
        if isinstance(allowed, _OneOf):
            usual = sorted(allowed.values, key=str)
        elif allowed is not None:
            usual = [allowed.least, allowed.most, rng.randint(round(allowed.least), round(allowed.most))]
        found[key] = rng.choice([*usual * 8, *HOSTILE])
    return found


def test_configurations_that_are_accepted_are_those_workers_start_with(tmp_path: Path) -> None:
    rng = random.Random(58)  # noqa: S311 (no secret)
    confs = [random_values(rng) for _ in range(500)]
    accepted = []
    for conf in confs:
        try:
            require_sound_conf(running(), {T.id: conf})
        except InputError:
            continue
        accepted.append(conf)
    assert 20 < len(accepted) < 400
    (tmp_path / "WorkerParts.java").write_text(WORKER)
    (tmp_path / "confs.json").write_text(json.dumps(confs))
    java = shutil.which("java")
    assert java, "no java: install a JDK"
    class_path = f"{STORM_HOME / 'lib'}/*"
    command = [java, "-cp", class_path, str(tmp_path / "WorkerParts.java"), str(tmp_path / "confs.json")]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    faults = [json.loads(line) for line in lines if line.startswith('"')]
    assert len(faults) == len(confs)
    wrong = [(conf, fault) for conf, fault in zip(confs, faults, strict=True) if fault and conf in accepted]
    assert not wrong
    assert sum(map(bool, faults)) > 100  # hostile ones are among them, and Storm has no use for them
