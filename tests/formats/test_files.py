"""Files that are no files, no gzip, no JSON; and files written whole or not at all."""

from __future__ import annotations

import gzip
import os
import threading

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
from stormwright.schedulers import make_scheduler
from tests.formats.documents import SMALL

WHOLE = orjson.dumps(SMALL)
ZIPPED = gzip.compress(WHOLE)

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
def test_what_cannot_be_read(tmp_path, name):
    (tmp_path / "directory").mkdir()
    (tmp_path / "a").write_text("a file, no directory")
    with pytest.raises(InputError, match="cannot be read: "):
        read_json(tmp_path / name)


@pytest.mark.parametrize("name", ["plain.json", "zipped.json.gz", "zipped.json"])
def test_gzip_is_told_by_content(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(ZIPPED if name.startswith("zipped") else WHOLE)
    assert problem_to_dict(read_problem(path)) == problem_to_dict(problem_from_dict(SMALL))


def test_a_byte_order_mark_is_accepted(tmp_path):
    path = tmp_path / "problem.json"
    path.write_bytes(b"\xef\xbb\xbf" + WHOLE)
    assert problem_to_dict(read_problem(path)) == problem_to_dict(problem_from_dict(SMALL))


def test_a_fault_of_a_file_names_no_place_in_it(tmp_path):
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
