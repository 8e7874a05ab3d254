"""Where verbs write and what they print: links, standard streams, names that would steer a terminal, bad input."""

from __future__ import annotations

import json
import logging
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import numba
import orjson
import pytest

from stormwright.cli import progress
from stormwright.cli.output import text_table
from stormwright.formats import read_problem
from stormwright.jit import compilation
from stormwright.jit.compilation import report_compilation
from tests.formats.documents import SMALL, small

PROGRAM = [sys.executable, "-m", "stormwright"]

#: Is quick: what is written is all the same.
EVEN = ("--scheduler", "even")


@pytest.fixture
def small_file(tmp_path):
    path = tmp_path / "small.json"
    path.write_bytes(orjson.dumps(SMALL))
    return path


def program(*arguments: object, streams: str = "", **how) -> subprocess.CompletedProcess:
    """The program in a process of its own; `streams` is what a shell does with its streams."""
    words = ["sh", "-c", f'exec "$@" {streams}', "sh", *PROGRAM, *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, check=False, **how)


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["convert", "schedule"])
def test_standard_output_by_another_name_gets_the_file_and_nothing_else(tmp_path, small_file, verb):
    """`/dev/stdout` is such a link; here one of our own, which would be destroyed in its place."""
    link, out = tmp_path / "stdout", tmp_path / "out.json"
    link.symlink_to("/proc/self/fd/1")
    arguments = (
        ["convert", small_file, link] if verb == "convert" else ["schedule", small_file, *EVEN, "--output", link]
    )
    done = program(*arguments, streams=f"> '{out}'")
    assert done.returncode in (0, 1)
    assert str(link.readlink()) == "/proc/self/fd/1"
    assert json.loads(out.read_text())["schema"].startswith("stormwright-")
    assert "small: " in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("verb", [["convert"], ["schedule", *EVEN, "--output"]])
def test_a_hyphen_is_standard_output(tmp_path, small_file, verb):
    """As it is standard input where a file is read."""
    done = program(verb[0], "-", *verb[1:], "-", cwd=tmp_path, input=small_file.read_text())
    assert done.returncode in (0, 1)
    assert json.loads(done.stdout)["schema"].startswith("stormwright-")
    assert "small: " in done.stderr
    assert not (tmp_path / "-").exists()


@pytest.mark.slow
def test_standard_output_is_called_so(small_file):
    """As standard input is, and not by the name that it has in the file system."""
    assert program("convert", small_file, "-").stderr.endswith("written to standard output\n")
    assert "report: standard output" in program("compare", small_file, "--schedulers", "even", "--output", "-").stderr
    done = program("convert", small_file, "-", streams="> /dev/full")
    assert done.returncode == 2
    assert done.stderr == "stormwright: standard output: 1 fault\n  cannot be written: No space left on device\n"


@pytest.mark.slow
def test_convert_appends_to_redirected_output(tmp_path, small_file):
    link, out = tmp_path / "stdout", tmp_path / "out"
    link.symlink_to("/proc/self/fd/1")
    out.write_text("before\n")
    assert program("convert", small_file, link, streams=f">> '{out}'").returncode == 0
    before, document = out.read_text().splitlines()
    assert before == "before"
    assert json.loads(document)["name"] == "small"


def test_output_through_a_dangling_link(run, tmp_path, small_file):
    (tmp_path / "deep").mkdir()
    link = tmp_path / "link.json"
    link.symlink_to(tmp_path / "deep" / "target.json")
    code, _, err = run("convert", small_file, link)
    assert (code, err) == (0, "")
    assert link.is_symlink()
    assert read_problem(tmp_path / "deep" / "target.json").name == "small"


def test_output_file_mode_is_preserved(run, tmp_path, small_file):
    out = tmp_path / "out.json"
    out.touch(0o600)
    assert run("convert", small_file, out)[0] == 0
    assert stat.S_IMODE(out.stat().st_mode) == 0o600


@pytest.mark.parametrize("verb", ["convert", "schedule"])
def test_a_directory_is_no_output(run, tmp_path, small_file, verb):
    out = f"{tmp_path}/new/"
    code, _, err = run(
        *(["convert", small_file, out] if verb == "convert" else ["schedule", small_file, "--output", out])
    )
    assert code == 2
    assert "is a directory, and a file is to be written" in err
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("verb", ["convert", "schedule", "compare"])
def test_no_directory_is_made_of_a_slip(run, tmp_path, small_file, verb):
    out = tmp_path / "typo" / "deep" / "x.json"
    code, _, err = run(verb, small_file, *([out] if verb == "convert" else ["--output", out]))
    assert code == 2
    assert f"{out}: there is no directory {out.parent}: make it first, or choose another name" in err
    assert not (tmp_path / "typo").exists()


@pytest.mark.parametrize("name", ["p.xyz", "p", "p.NPZ", "p.npz.gz"])
def test_output_format_follows_file_extension(run, tmp_path, small_file, name):
    """One that says neither would get JSON, whatever was meant."""
    code, _, err = run("convert", small_file, tmp_path / name)
    assert code == 2
    assert f"{name}: should end with .npz for a NumPy archive, or with .json or .json.gz for JSON" in err
    assert not (tmp_path / name).exists()


def test_output_below_a_file(run, small_file):
    code, _, err = run("schedule", small_file, "--output", small_file / "a" / "b")
    assert code == 2
    assert f"cannot be written: {small_file}: is a file, and no directory" in err


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [["schedule", *EVEN, "--json"], ["compare", "--schedulers", "even", "--json"], ["convert", "OUT"]]
)
def test_a_problem_on_standard_input(tmp_path, small_file, arguments):
    verb, *options = arguments
    options = [tmp_path / "out.json" if option == "OUT" else option for option in options]
    done = program(verb, "-", *options, input=small_file.read_text())
    assert (done.returncode in (0, 1), done.stderr.replace("even\n", "")) == (True, "") or verb == "compare"
    assert json.loads(done.stdout if verb != "convert" else (tmp_path / "out.json").read_text())


@pytest.mark.slow
def test_standard_input_is_not_overwritten(small_file):
    done = program("convert", "-", small_file, streams=f"< '{small_file}'")
    assert done.returncode == 2
    assert "is read here, and would be overwritten" in done.stderr


@pytest.mark.slow
def test_bad_standard_input():
    done = program("schedule", "-", input="{}")
    assert done.returncode == 2
    assert done.stderr.startswith("stormwright: standard input: 3 faults\n")


@pytest.mark.slow
def test_closed_streams(tmp_path, small_file):
    """What is written goes to its file and nowhere else, though numbers 0 to 2 were free."""
    even = (*EVEN, "--json")
    code = program("schedule", small_file, *even).returncode
    for streams in (">&-", "<&- >&-", "2>&-", "<&- >&- 2>&-"):
        out = tmp_path / "out.json"
        done = program("schedule", small_file, *even, "--output", out, streams=streams)
        assert (done.returncode, done.stderr) == (code, "")
        assert json.loads(out.read_text())["schema"] == "stormwright-assignment/1"
        out.unlink()
    assert program("schedule", "-", streams="<&-").returncode == 2


@pytest.mark.slow
def test_unencodable_characters_are_escaped_in_output(tmp_path):
    path = tmp_path / "names.json"
    path.write_bytes(
        orjson.dumps(small("topologies", 0, "components", 1, "id", value="zähl–日本") | {"assignments": {}, "load": {}})
    )
    for encoding in ("ascii", "latin-1"):
        done = program("schedule", path, *EVEN, env={**os.environ, "PYTHONIOENCODING": encoding}, errors="replace")
        assert (done.returncode, done.stderr) == (0, "")
        assert r"\u65e5\u672c" in done.stdout


EVIL = "[/red] [prod] :fire: \x1b[31m\x1b]0;title\x07\nviolations: 9"
SAFE = r"[/red] [prod] :fire: \x1b[31m\x1b]0;title\x07\nviolations: 9"


@pytest.fixture
def evil_file(tmp_path):
    document = {**SMALL, "name": EVIL, "assignments": {}, "load": {}}
    text = orjson.dumps(document).replace(b'"wc-1-1600000000"', orjson.dumps(EVIL))
    path = tmp_path / "evil.json"
    path.write_bytes(text.replace(b'"count"', orjson.dumps("c" + EVIL)).replace(b'"h1"', orjson.dumps("h" + EVIL)))
    return path


@pytest.mark.parametrize(
    "verb", [["schedule"], ["compare", "--schedulers", "even,online"], ["bound"], ["convert", "OUT"]]
)
def test_control_characters_in_names_are_neutralized_in_output(run, tmp_path, evil_file, verb):
    arguments = [tmp_path / "out.json" if word == "OUT" else word for word in verb[1:]]
    if verb == ["bound"]:
        arguments = ["--search", "0.01", "--seconds", "0.01"]
    code, out, err = run(verb[0], evil_file, *arguments)
    assert code in (0, 1)
    assert not {"\x1b", "\x07"} & set(out + err)
    assert out.startswith(SAFE + ": ")
    assert "\nviolations: 9" not in out


def test_keys_in_paths_of_faults_steer_nothing(run, tmp_path):
    path = tmp_path / "faults.json"
    path.write_bytes(orjson.dumps({**SMALL, "\x1b[2J\nforged": 1}))
    code, _, err = run("schedule", path)
    assert code == 2
    assert err.splitlines()[1:] == [r'  unknown key @ $["\x1b[2J\nforged"]']


@pytest.mark.parametrize(
    ("scheduler", "setting"),
    [
        ("ant_colony", "ants=1000000000"),
        ("genetic", "population=1000000000"),
        ("t_storm", "gamma=inf"),
        ("t_storm", "gamma=1e308"),
        ("online", "gamma=inf"),
        ("online", "overload_s=inf"),
        ("random", "seed=18446744073709551616"),
        ("annealing", "sweeps=18446744073709551616"),
        ("annealing", f"max_steps={'9' * 5000}"),
    ],
)
def test_parameters_have_bounds(run, small_file, scheduler, setting):
    code, _, err = run("schedule", small_file, "--scheduler", scheduler, "--set", setting, "--json")
    assert code == 2
    assert f"  {setting.partition('=')[0]}: should be " in err
    assert len(err) < 300


@pytest.mark.parametrize("scheduler", ["random", "annealing", "even"])
def test_a_seed_has_64_bits(run, small_file, scheduler):
    code, _, err = run("schedule", small_file, "--scheduler", scheduler, "--seed", 2**64, "--json")
    assert code == 2
    assert "18446744073709551616 is not in the range" in err


def test_too_deeply_nested_configuration_is_rejected(run, tmp_path):
    path = tmp_path / "deep.json"
    path.write_text(
        orjson.dumps(SMALL).decode().replace('"topology.priority":29', f'"topology.x":{"[" * 300}{"]" * 300}')
    )
    for out in ("out.json", "out.npz"):
        code, _, err = run("convert", path, tmp_path / out)
        assert code == 2
        assert "is nested more than 100 levels deep" in err


@pytest.mark.parametrize("capacity", ['"x"', "null", "[]", "-1"])
def test_invalid_capacity_in_assignment_parameters_is_rejected(run, tmp_path, small_file, capacity):
    answer = tmp_path / "answer.json"
    run("schedule", small_file, "--scheduler", "online", "--output", answer)
    text = answer.read_text()
    assert '"capacity":100.0' in text
    answer.write_text(text.replace('"capacity":100.0', f'"capacity":{capacity}'))
    code, _, err = run("explain", small_file, answer, "--topology", "wc", "--executor", 0)
    assert code == 2
    assert "@ $.parameters.capacity" in err


def test_memory_exhaustion_is_reported(run, monkeypatch, small_file):
    def none_left(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("stormwright.cli.schedule.read_problem", none_left)
    assert run("schedule", small_file) == (2, "", "stormwright: there is not enough memory for this\n")


FULL = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
from stormwright.cli import run
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
sys.exit(run(sys.argv[1:]))
"""


@pytest.mark.slow
def test_failed_report_write_preserves_previous_report(tmp_path, small_file):
    report = tmp_path / "report.html"
    report.write_text("the old one")
    words = [sys.executable, "-c", FULL, "compare", small_file, "--schedulers", "even", "--output", report]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"{report}: 1 fault\n  cannot be written: File too large" in done.stderr
    assert report.read_text() == "the old one"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "small.json"]


@pytest.mark.slow
def test_a_package_without_room_leaves_nothing_in_the_way(tmp_path):
    words = [sys.executable, "-c", FULL, "new-scheduler", "crowd", "--directory", tmp_path]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "cannot be written: File too large" in done.stderr
    assert list(tmp_path.iterdir()) == []
    assert program("new-scheduler", "crowd", "--directory", tmp_path).returncode == 0
    (made,) = Path(tmp_path).iterdir()
    assert made.name == "stormwright-crowd"
    assert made.stat().st_mode == (made / "src").stat().st_mode


@pytest.mark.parametrize("group", ["import", "history", "cluster", "pipeline"])
def test_a_list_of_verbs_has_whole_sentences(run, group):
    code, out, _ = run(group, "--help")
    assert code == 0
    assert "..." not in out.partition("Commands:")[2].replace("TOPOLOGY...", "")


def test_lines_of_a_table_end_where_their_text_ends():
    table = text_table("n", "what came of it")
    table.add_row(1, "a long story " * 20 + "that ends")
    table.add_row(2, "short")
    assert [line for line in table.lines() if line.endswith(" ")] == []


@pytest.mark.slow
def test_full_standard_error_leaves_the_exit_code(tmp_path):
    """Of a fault, and of standard output that is full, too."""
    assert program("schedule", tmp_path / "none.json", streams="2>/dev/full").returncode == 2
    assert program("schedulers", streams=">/dev/full 2>/dev/full").returncode == 2


def test_numbers_are_in_the_digits_of_ascii(run):
    of, digits = "ready:top-storm-exclamation-4", "٣"
    for arguments in (
        ("simulate", of, "--seed", digits),
        ("simulate", of, "--tuples-at-once", digits),
        ("tradeoff", of, "--moves", digits),
        ("advise", of, "--rate", digits),
        ("advise", of, "--max-nodes", digits),
        ("whatif", of, "--rate", f"x{digits}"),
        ("whatif", of, "--parallelism", f"word={digits}"),
        ("whatif", of, "--add-nodes", digits),
        ("explain", of, "--executor", digits),
        ("schedule", of, "--seed", digits),
        ("schedule", of, "--set", f"seed={digits}"),
        ("bound", of, "--seed", digits),
        ("tradeoff", of, "--seed", digits),
        ("history", "--limit", digits),
        ("mode", "--freeze", "x", "--until", f"{digits}h"),
    ):
        code, out, err = run(*arguments)
        assert (code, out) == (2, ""), arguments
        assert digits in err, arguments


def test_memory_of_spark_is_checked_before_its_start(run, tmp_path):
    (tmp_path / "history" / "tables").mkdir(parents=True)
    for value in ("8x", "much"):
        code, _, err = run("history", "tables", "--state", tmp_path, "--spark-conf", f"spark.driver.memory={value}")
        assert code == 2
        assert "spark.driver.memory should be a size as in 2g" in err
    for wrong in ("-1", "99999999999", "0"):
        code, _, err = run("history", "retain", "--state", tmp_path, wrong)
        assert code == 2
        assert f"{wrong}: the number of days must be a whole number" in err


def test_long_work_is_reported_on_standard_error(capsys, monkeypatch):
    for after_s, expected in ((0.0, "counting …\n"), (60.0, "")):
        monkeypatch.setattr(progress, "REPORTED_AFTER_S", after_s)
        with progress.working("counting"):
            time.sleep(0.1)
        assert capsys.readouterr().err == expected


def test_compilation_is_reported_once_per_package(caplog):
    def of(module):
        function = numba.njit(lambda number: number + 1)
        function.py_func.__module__ = module
        return function

    report_compilation()
    compilation._report.cache_clear()  # noqa: SLF001 (others may have compiled in this process)
    with caplog.at_level(logging.INFO, "stormwright.jit.compilation"):
        for module in ("stormwright.optimize.one", "stormwright.optimize.two", "elsewhere"):
            of(module)(1)
    assert caplog.messages == ["compiling the search, once, about a minute"]
