"""``stormwright calibrate``, and predictions by what it wrote."""

from __future__ import annotations

import re

import jsonschema
import orjson
import pytest

from stormwright.formats import write_problem
from stormwright.perflog.records import encode
from stormwright.testing.word_counts import WordCount
from tests.predict.calibration.log import SPREAD, Log
from tests.predict.calibration.test_inputs import VARIES, records
from tools.json_schemas import schema_text


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"\n".join(encode(record) for record in Log(SPREAD, serialise_us=4.0).records(1)))
    return path


@pytest.fixture
def problem(tmp_path):
    path = tmp_path / "words.json"
    write_problem(path, WordCount(cores=0.4).problem())
    return path


def test_costs_are_shown(run, log):
    code, out, err = run("calibrate", log)
    assert code == 0
    assert "send_us" in out
    assert "words-1-0: work × 1.0" in out
    assert not err


def test_calibrate_reports_cost_per_stream_where_distinguishable(run, tmp_path):
    for name, mix in (("varies", VARIES), ("same", [0.3])):
        (tmp_path / f"{name}.jsonl").write_bytes(b"\n".join(map(encode, records(1, mix))))
    _, out, _ = run("calibrate", tmp_path / "varies.jsonl")
    found = re.search(
        r"t-1-0/bolt: [0-9.]+ µs of a tuple of quick/default; ([0-9.]+) µs of a tuple of slow/default", out
    )
    assert found
    assert float(found[1]) == pytest.approx(20, rel=0.05)
    _, out, _ = run("calibrate", tmp_path / "same.jsonl")
    assert re.search(r"t-1-0/bolt: [0-9.]+ µs of one of quick/default, slow/default, not distinguishable", out)


def test_predictions_use_calibrated_costs_file(run, log, problem, tmp_path):
    costs = tmp_path / "costs.json"
    assert run("calibrate", log, "-o", costs)[0] == 0
    document = orjson.loads(costs.read_bytes())
    jsonschema.validate(document, orjson.loads(schema_text("stormwright-calibration-1.json")))
    assert document["costs"]["serialise_us"] == pytest.approx(4.0, rel=0.1)
    before = run("predict", problem)[1]
    code, after, _ = run("predict", problem, "--costs", costs)
    assert code == 0
    assert "not fitted to this cluster" in before
    assert "not fitted to this cluster" not in after
    code, out, _ = run("whatif", problem, "--rate", "x2", "--costs", costs)
    assert code == 0
    assert "not fitted to this cluster" not in out


def test_predict_uses_costs_stored_in_problem(run, log, problem, tmp_path):
    costs = orjson.loads(run("calibrate", log, "--json")[1])
    whole = tmp_path / "whole.json"
    whole.write_bytes(orjson.dumps(orjson.loads(problem.read_bytes()) | {"costs": costs}))
    archive = tmp_path / "whole.npz"
    assert run("convert", whole, archive)[0] == 0
    outputs = [run("predict", each) for each in (whole, archive)]
    assert outputs[0] == outputs[1]
    assert "not fitted to this cluster" not in outputs[0][1]


def test_calibrate_reads_directories_and_reports_bad_and_duplicate_records(run, log, tmp_path):
    state = tmp_path / "state"
    (state / "landing").mkdir(parents=True)
    (state / "landing" / "1.jsonl").write_bytes(log.read_bytes() + b"\nnonsense\n" + log.read_bytes())
    code, out, err = run("calibrate", state, "--json")
    assert code == 0
    assert orjson.loads(out)["costs"] == orjson.loads(run("calibrate", tmp_path, "--json")[1])["costs"]
    assert "1 of 361 lines are no records: not a JSON object" in err
    assert "180 records are there twice" in err


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", "is empty; records of the performance log are expected"),
        (b"nonsense", "holds no record of the performance log: not a JSON object"),
        (b"\xff\xfe\x00", "holds no record of the performance log"),
        (b'{"schema": "stormwright-problem/1"}', "holds no record of the performance log: version"),
    ],
)
def test_calibrate_rejects_files_with_invalid_records(run, tmp_path, text, expected):
    path = tmp_path / "log.jsonl"
    path.write_bytes(text)
    code, _, err = run("calibrate", path)
    assert code == 2
    assert expected in err


def test_calibrate_rejects_records_without_usable_measurements(run, tmp_path):
    path = tmp_path / "log.jsonl"

    def message_of(records):
        path.write_bytes(b"\n".join(map(encode, records)))
        code, _, err = run("calibrate", path)
        assert code == 2
        return err

    records = Log(SPREAD).records(1, seconds=10, begin_s=2.0)
    assert "no worker was warm for long enough: 30 s after its start" in message_of(records)
    old = [{name: value for name, value in record.items() if name != "threads"} for record in records]
    assert "its records lack threads" in message_of(old)
    assert "only the last records" in message_of([{**r, "worker": {**r["worker"], "last": 1}} for r in records])


def test_calibrate_rejects_missing_files_and_overwriting_its_input(run, log, tmp_path):
    code, _, err = run("calibrate", tmp_path / "nobody.jsonl")
    assert code == 2
    assert "cannot be read: No such file" in err
    empty = tmp_path / "empty"
    empty.mkdir()
    code, _, err = run("calibrate", empty)
    assert code == 2
    assert "no file *.jsonl or *.parquet in this directory" in err
    assert run("calibrate")[0] == 2
    code, _, err = run("calibrate", log, "-o", log)
    assert code == 2
    assert "would be overwritten" in err


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"schema": "stormwright-problem/1"}, "and a calibration should be here"),
        ({"costs": {}}, "required field missing @ $.schema"),
        ({"schema": "stormwright-calibration/1", "costs": {"send": 1.0}}, "no such cost; there are serialise_us"),
        ({"schema": "stormwright-calibration/1", "costs": {"send_us": -1.0}}, "@ $.costs.send_us"),
        ({"schema": "stormwright-calibration/1", "costs": {"work_error": 2.0}}, "should be a number from 0 to below 1"),
        ({"schema": "stormwright-calibration/1", "costs": {}, "more": 1}, "@ $.more"),
        ([], "should be"),
    ],
)
def test_predict_rejects_invalid_cost_documents(run, problem, tmp_path, document, expected):
    path = tmp_path / "costs.json"
    path.write_bytes(orjson.dumps(document))
    code, _, err = run("predict", problem, "--costs", path)
    assert code == 2
    assert expected in err


def test_calibrate_requires_either_records_or_storm_home(run, tmp_path):
    for given in ((), (tmp_path / "records.jsonl", "--storm-home", tmp_path)):
        code, _, err = run("calibrate", *given)
        assert code == 2
        assert "give either RECORDS or --storm-home" in err


def test_calibrate_rejects_directory_without_storm_installation(run, tmp_path):
    code, _, err = run("calibrate", "--storm-home", tmp_path)
    assert code == 2
    assert "is no Storm installation" in err


@pytest.mark.parametrize(
    ("option", "value"), [("--host", "127.0.0.1"), ("--port", 7071), ("--rate", 1000), ("--measure", 45)]
)
def test_calibration_run_options_are_rejected_with_records(run, log, option, value):
    code, out, err = run("calibrate", log, option, value)
    assert (code, out) == (2, "")
    assert f"{option}: has no effect: it needs --storm-home" in err
