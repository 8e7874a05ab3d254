"""Files that are no files, no gzip, no JSON; and files written whole or not at all."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import threading
from pathlib import Path

import orjson
import pytest

from stormwright.errors import InputError
from stormwright.formats import (
    assignment_to_dict,
    parse_json,
    problem_from_dict,
    problem_to_dict,
    read_assignment,
    read_json,
    read_problem,
    write_assignment,
    write_json,
    write_problem,
)
from stormwright.formats.files.archives import problem_to_bytes
from stormwright.schedulers import make_scheduler
from tests.formats.documents import SMALL

WHOLE = orjson.dumps(SMALL)
ZIPPED = gzip.compress(WHOLE, mtime=0)

RUBBISH = {
    "empty": (b"", "is empty; JSON is expected"),
    "blank": (b"  \n", "is not JSON: "),
    "truncated JSON": (WHOLE[:-20], "is not JSON: "),
    "binary": (bytes(range(256)), "is not text in UTF-8"),
    "NaN": (WHOLE.replace(b"12.5", b"NaN"), "is not JSON: "),
    "Infinity": (WHOLE.replace(b"12.5", b"-Infinity"), "is not JSON: "),
    "two documents": (WHOLE + WHOLE, "is not JSON: "),
    "no UTF-8": (b'{"name": "\xff"}', "is not text in UTF-8"),
    "UTF-16": (WHOLE.decode().encode("utf-16"), "is not text in UTF-8"),
    "UTF-16 without its mark": (WHOLE.decode().encode("utf-16-le"), "is not text in UTF-8"),
    "byte order mark alone": (b"\xef\xbb\xbf", "is empty; JSON is expected"),
    "too deep": (b"[" * 100_000, "is not JSON: "),
    "truncated gzip": (ZIPPED[:-20], "is damaged gzip data: "),
    "gzip header alone": (ZIPPED[:4], "is damaged gzip data: "),
    "damaged gzip": (ZIPPED[:40] + b"\x00\xff" * 8 + ZIPPED[56:], "is damaged gzip data: "),
    "gzip of nothing": (gzip.compress(b""), "is empty; JSON is expected"),
}


@pytest.mark.parametrize("kind", RUBBISH)
def test_rubbish_is_an_input_error(tmp_path, kind):
    data, message = RUBBISH[kind]
    path = tmp_path / "problem.json.gz"
    path.write_bytes(data)
    with pytest.raises(InputError) as error:
        read_problem(path)
    (fault,) = error.value.faults
    assert error.value.source == str(path)
    assert fault.path == "$"
    assert fault.message.startswith(message)


@pytest.mark.parametrize("name", ["missing.json", "directory", "a/b"])
def test_unreadable_json_file_raises_input_error(tmp_path, name):
    (tmp_path / "directory").mkdir()
    (tmp_path / "a").write_text("a file, no directory")
    with pytest.raises(InputError, match="cannot be read: "):
        read_json(tmp_path / name)


@pytest.mark.parametrize("name", ["plain.json", "zipped.json.gz", "zipped.json"])
def test_gzip_is_detected_by_content(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(ZIPPED if name.startswith("zipped") else WHOLE)
    assert problem_to_dict(read_problem(path)) == problem_to_dict(problem_from_dict(SMALL))


def test_a_byte_order_mark_is_accepted(tmp_path):
    path = tmp_path / "problem.json"
    path.write_bytes(b"\xef\xbb\xbf" + WHOLE)
    assert problem_to_dict(read_problem(path)) == problem_to_dict(problem_from_dict(SMALL))


def test_file_level_fault_has_no_json_path(tmp_path):
    with pytest.raises(InputError) as error:
        read_problem(tmp_path / "none.json")
    assert str(error.value).endswith("none.json: 1 fault\n  cannot be read: No such file or directory")


@pytest.mark.parametrize("name", ["out.json", "out.json.gz"])
def test_written_files_are_read_back(tmp_path, name):
    problem = problem_from_dict(SMALL)
    write_problem(tmp_path / name, problem)
    assert (tmp_path / name).read_bytes().startswith(b"\x1f\x8b") == name.endswith(".gz")
    assert problem_to_dict(read_problem(tmp_path / name)) == problem_to_dict(problem)
    answer = make_scheduler("even").schedule(problem)
    write_assignment(tmp_path / name, problem, answer)
    again = read_assignment(tmp_path / name, problem)
    assert assignment_to_dict(problem, again) == assignment_to_dict(problem, answer)


def test_same_document_same_bytes(tmp_path):
    write_json(tmp_path / "a.gz", SMALL)
    write_json(tmp_path / "b.gz", SMALL)
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()


def test_nothing_is_left_where_writing_fails(tmp_path):
    with pytest.raises(InputError, match="cannot be written: "):
        write_json(tmp_path / "no" / "such" / "directory.json", SMALL)
    (tmp_path / "taken").mkdir()
    with pytest.raises(InputError, match="cannot be written: "):
        write_json(tmp_path / "taken", SMALL)
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_a_pipe_is_written_to_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write_json(pipe, {"a": 1})
    reader.join()
    assert read == [b'{"a":1}\n']
    assert pipe.is_fifo()


def test_source_is_named():
    with pytest.raises(InputError, match=r"^body of the request: 1 fault\n  is empty"):
        parse_json(b"", "body of the request")


def test_links_are_written_through(tmp_path):
    (tmp_path / "link").symlink_to("target.json")
    write_json(tmp_path / "link", SMALL)
    assert (tmp_path / "link").is_symlink()
    assert read_json(tmp_path / "target.json") == SMALL


@pytest.mark.parametrize(
    "data",
    [WHOLE, ZIPPED, b"\xef\xbb\xbf" + WHOLE, problem_to_bytes(problem_from_dict(SMALL))],
    ids=["JSON", "gzip", "with a byte order mark", "arrays"],
)
def test_standard_input(monkeypatch, data):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(data))))
    assert problem_to_dict(read_problem(Path("-"))) == problem_to_dict(problem_from_dict(SMALL))


def test_standard_input_is_named(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(b"{}"))))
    with pytest.raises(InputError, match=r"^standard input: 3 faults"):
        read_problem(Path("-"))
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(InputError, match=r"^standard input: 1 fault\n  is closed"):
        read_problem(Path("-"))


def test_gzip_data_is_unpacked_up_to_a_limit(tmp_path, monkeypatch):
    path = tmp_path / "problem.json.gz"
    path.write_bytes(ZIPPED)
    monkeypatch.setattr("stormwright.formats.files.json_files.MAX_UNPACKED", len(WHOLE))
    assert read_json(path) == SMALL
    monkeypatch.setattr("stormwright.formats.files.json_files.MAX_UNPACKED", len(WHOLE) - 1)
    with pytest.raises(InputError, match=f"unpacks to more than {len(WHOLE) - 1:,} bytes"):
        read_json(path)


LITTLE_MEMORY = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
from pathlib import Path
from stormwright.errors import InputError
from stormwright.formats import read_problem
from stormwright.formats.files import json_files as files
files.MAX_UNPACKED = 200 << 20
try:
    read_problem(Path(sys.argv[1]))
except InputError as error:
    print(error)
"""


@pytest.mark.slow
def test_no_more_is_unpacked_than_the_limit(tmp_path):
    """3 GB of blanks in 3 MB."""
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(b" " * 10**8) * 30)
    done = subprocess.run([sys.executable, "-c", LITTLE_MEMORY, path], capture_output=True, text=True, check=True)
    assert "unpacks to more than 209,715,200 bytes" in done.stdout


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ('{"a": 1, "a": 1}', ["$.a"]),
        ('{"a": {"b.c": [0, {"x": 1, "y": {}, "x": {"x": 1}}]}, "b": ":::"}', ['$.a["b.c"][1].x']),
        ('{"a": 1, "b": 1, "a": {"z": 0, "z": 0}, "b": 2}', ["$.a", "$.b", "$.a.z"]),
        ('{"x": 1' + "0" * 300 + ', "x": 1}', ["$.x"]),
        ('{"a": 1, "b": {"a": 1}, "c": "\\"a\\": 1"}', []),
        ('[":", {":": ":"}, {"a:": "b:"}]', []),
        ('"\\u003a"', []),
    ],
)
@pytest.mark.parametrize("zipped", [False, True])
def test_keys_given_twice_are_faults(tmp_path, text, places, zipped):
    path = tmp_path / "file.json"
    path.write_bytes(gzip.compress(text.encode()) if zipped else text.encode())
    if not places:
        assert read_json(path) == orjson.loads(text)
        return
    with pytest.raises(InputError) as error:
        read_json(path)
    assert [(fault.path, fault.message) for fault in error.value.faults] == [(at, "is there twice") for at in places]


def test_json_nested_beyond_serializer_depth_is_readable(tmp_path):
    path = tmp_path / "file.json"
    path.write_text("[" * 300 + '{"a:": 1}' + "]" * 300)
    assert str(read_json(path)).startswith("[[[")
    path.write_text("[" * 300 + '{"a": 1, "a": 2}' + "]" * 300)
    with pytest.raises(InputError, match="is there twice"):
        read_json(path)
