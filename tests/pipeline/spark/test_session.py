"""What a session leaves to the shell, to other users and to the disk."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.sql import SparkSession

from stormwright.pipeline.spark import session
from stormwright.pipeline.spark.scratch import scratch


@pytest.mark.parametrize("name", ["a$HOME", "a`touch made`", 'a"b', "a'b", "a$(touch made)"])
def test_no_shell_reads_more_in_a_directory_than_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for variable in ("PYSPARK_PYTHON", "SPARK_LOCAL_IP", "SPARK_CONF_DIR"):
        monkeypatch.setenv(variable, "")
    directory = tmp_path / name
    log = session._configure(directory, niceness=0)  # noqa: SLF001
    script = 'cd "$1" && . "$2" && echo told >&2'
    subprocess.run(["bash", "-c", script, "bash", tmp_path, directory / "conf" / "spark-env.sh"], check=True)
    assert log.read_text().splitlines()[-1] == "told"
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_nice_process_starts_no_jvm_that_is_less_nice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("PYSPARK_PYTHON", "SPARK_LOCAL_IP", "SPARK_CONF_DIR"):
        monkeypatch.setenv(variable, "")
    monkeypatch.setattr(os, "getpriority", lambda *_: 10)
    script = tmp_path / "conf" / "spark-env.sh"
    for niceness, expected in ((0, 10), (15, 15)):
        session._configure(tmp_path, niceness)  # noqa: SLF001
        assert f"renice -n {expected} " in script.read_text()


@pytest.mark.spark
def test_driver_connections_require_the_secret(spark: SparkSession) -> None:
    assert spark.sparkContext.getConf().get("spark.authenticate") == "true"


@pytest.mark.spark
def test_temporary_files_stay_in_configured_directory(spark: SparkSession) -> None:
    """RocksDB unpacks its machine code there."""
    where = spark.sparkContext._jvm.java.lang.System.getProperty("java.io.tmpdir")  # noqa: SLF001
    assert where == spark.sparkContext.getConf().get("spark.local.dir")
    assert Path(where).is_dir()


@pytest.mark.slow  # a JVM of its own
def test_secrets_are_not_on_the_command_line_of_the_jvm(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from stormwright.pipeline.spark.session import batch_session\n"
        "from stormwright.pipeline.spark.target import SparkTarget\n"
        "conf = {'spark.hadoop.fs.s3a.secret.key': 'hidden', 'spark.hadoop.fs.s3a.endpoint': 'shown'}\n"
        "spark = batch_session(Path(sys.argv[1]), SparkTarget('local[1]', conf=conf))\n"
        "pid = spark._jvm.java.lang.ProcessHandle.current().pid()\n"
        "hadoop = spark._jsparkSession.sessionState().newHadoopConf()\n"
        "line = Path(f'/proc/{pid}/cmdline').read_text()\n"
        "print('hidden' in line, 'shown' in line, hadoop.get('fs.s3a.secret.key'), hadoop.get('fs.s3a.endpoint'))\n"
        "spark.stop()\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "hidden", "shown"]


def test_files_of_killed_jvm_are_deleted_by_next_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("PYSPARK_PYTHON", "SPARK_LOCAL_IP", "SPARK_CONF_DIR"):
        monkeypatch.setenv(variable, "")
    left = session.temporary(tmp_path) / "librocksdbjni1.so"
    left.parent.mkdir()
    left.touch()
    session._configure(tmp_path, niceness=0)  # noqa: SLF001
    assert left.parent.is_dir()
    assert not left.exists()


def test_files_of_killed_process_are_deleted_by_next_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = (
        "import os, signal\n"
        "from stormwright.pipeline.spark.scratch import scratch\n"
        "with scratch('spark') as directory:\n"
        "    (directory / 'conf').mkdir()\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run([sys.executable, "-c", program], env=os.environ | {"TMPDIR": str(tmp_path)}, check=False)
    assert killed.returncode < 0
    (left,) = tmp_path.iterdir()
    (tmp_path / "stormwright-scratch-somebody-elses").touch()
    monkeypatch.setattr("stormwright.pipeline.spark.scratch.gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with scratch("young"):
        assert left.exists(), "whoever made it may be about to lock it"
    os.utime(left, (0, 0))
    with scratch("held") as held:
        os.utime(held, (0, 0))
        with scratch("other"):
            assert held.exists()
    assert not left.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["stormwright-scratch-somebody-elses"]


def test_ctrl_c_stops_spark_wait_without_log_output(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Spark's own handler would ask the JVM in the middle of a call, and Py4J log both."""

    def started(*_: object) -> SimpleNamespace:
        signal.signal(signal.SIGINT, lambda *_: pytest.fail("Spark's handler was called"))
        return SimpleNamespace(stop=lambda: stopped.append(True))

    def call() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:  # as Py4J does
            logging.exception("KeyboardInterrupt while sending command.")
            raise

    stopped: list[bool] = []
    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(session, "batch_session", started)
    try:
        with pytest.raises(KeyboardInterrupt), session.working_session():
            call()
    finally:
        signal.signal(signal.SIGINT, before)
    assert (stopped, caplog.records) == ([True], [])
