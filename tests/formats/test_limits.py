"""Inputs that ask for too much: executors, levels, faults, aliases, long lines; each is reported, and quickly."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormwright.errors import InputError
from stormwright.formats import problem_from_dict, problem_to_dict, snapshot_from_dict
from stormwright.formats.document.sweep import read_sweep
from stormwright.formats.files.yaml_files import read_yaml
from stormwright.formats.storm.conf import StormConf
from stormwright.formats.storm.flux import read_flux
from stormwright.formats.storm.flux_files import Substitution
from stormwright.formats.storm.java_properties import read_properties
from stormwright.formats.storm.storm_yaml import read_storm_yaml
from tests.formats.documents import NO_NODES, SMALL, small


@contextmanager
def quickly(most_s: float = 5.0) -> Iterator[None]:
    """What took minutes, or for ever, is over at once; what other work takes on the machine does not count."""
    begin = time.process_time()
    yield
    assert time.process_time() - begin < most_s


def faults_of(call, *arguments) -> list[str]:
    with pytest.raises(InputError) as caught:
        call(*arguments)
    return [str(fault) for fault in caught.value.faults]


def with_executors(count: int) -> dict:
    document = small("topologies", 0, "executor_runs", value=[[1, 1, count, 1], [0, count + 1, 1, 1]])
    document["topologies"][0]["components"][1]["parallelism"] = count
    return {**document, "load": {}, "assignments": {}}


@pytest.mark.parametrize("count", [10**7, 10**8, 2**31 - 3])
def test_no_more_executors_than_memory_holds(count):
    with quickly():
        (fault,) = faults_of(problem_from_dict, with_executors(count))
    assert fault == f"asks for {count + 1:,} executors; at most 10,000,000 are taken @ $.topologies"


def test_executors_of_a_case_are_counted_too():
    case = {"schema": "stormwright-case/1", "problem": with_executors(10**8)}
    assert faults_of(problem_from_dict, case) == [
        "asks for 100,000,001 executors; at most 10,000,000 are taken @ $.problem.topologies"
    ]


def nested(levels: int) -> list:
    value: list = []
    for _ in range(levels - 1):
        value = [value]
    return value


@pytest.mark.parametrize("place", [("conf",), ("topologies", 0, "conf")])
def test_configuration_is_nested_only_so_deep(place):
    problem = problem_from_dict(small(*place, "topology.x", value=nested(100)))
    assert orjson.dumps(problem_to_dict(problem))
    (fault,) = faults_of(problem_from_dict, small(*place, "topology.x", value=nested(101)))
    assert fault.startswith("is nested more than 100 levels deep, got [[[[")
    assert fault.endswith('conf["topology.x"]')


def test_shared_memory_is_nested_only_so_deep():
    at = ("topologies", 0, "components", 1, "shared_memory", 0, "name")
    (fault,) = faults_of(problem_from_dict, small(*at, value=nested(300)))
    assert fault == "is nested more than 100 levels deep @ $.topologies[0].components[1].shared_memory[0]"


def test_too_deeply_nested_topology_is_excluded_without_affecting_others():
    problem, unfit = snapshot_from_dict(small("topologies", 0, "conf", "topology.x", value=nested(300)))
    assert list(unfit) == [problem.topologies[0].id]
    assert orjson.dumps(problem_to_dict(problem))


@pytest.mark.slow
def test_many_faults_are_counted():
    with quickly(20), pytest.raises(InputError) as caught:
        problem_from_dict({**SMALL, **NO_NODES, "supervisors": [{} for _ in range(200_000)]})
    lines = str(caught.value).splitlines()
    # Three required fields each.
    assert lines[0] == "problem: 600000 faults"
    assert lines[-1] == "  and 599,900 more"
    assert len(lines) == 102


def test_many_unknown_keys_are_counted():
    with pytest.raises(InputError) as caught:
        problem_from_dict({**SMALL, **{f"key{number}": 0 for number in range(5_000)}})
    assert str(caught.value).splitlines()[-1] == "  and 4,900 more"


def test_few_faults_are_all_listed():
    with pytest.raises(InputError) as caught:
        problem_from_dict({**SMALL, **NO_NODES, "supervisors": [{}] * 33})
    assert len(str(caught.value).splitlines()) == 100
    assert "more" not in str(caught.value)


def test_a_long_key_is_cut():
    (fault,) = faults_of(
        problem_from_dict,
        {
            **SMALL,
            "x y" * 10**6: 0,
        },
    )
    assert len(fault) < 200


BOMB = "a0: &a0 [x]\n" + "".join(f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 10)}]\n" for n in range(11))
MERGED = "a0: &a0 {x: 1}\n" + "".join(
    f"a{n + 1}: &a{n + 1} {{<<: [{', '.join([f'*a{n}'] * 10)}]}}\n" for n in range(11)
)


@pytest.mark.parametrize("text", [BOMB, MERGED, BOMB + "topology.x: *a11\n", BOMB + "schema: *a11\n"])
@pytest.mark.parametrize("read", [read_yaml, read_storm_yaml, read_sweep])
def test_yaml_alias_bomb_is_rejected_quickly(tmp_path, read, text):
    path = tmp_path / "bomb.yaml"
    path.write_text(text)
    with quickly():
        (fault,) = faults_of(read, path)
    assert re.fullmatch(r"its aliases \(\*name\) stand for [\d,]+ values; at most 1,000,000 are read", fault)


def test_aliases_in_flux(tmp_path):
    path = tmp_path / "bomb.yaml"
    path.write_text(BOMB + "name: *a11\n")
    with quickly():
        topologies, (error,) = read_flux([path], StormConf([]))
    assert not topologies
    assert "its aliases (*name) stand for" in str(error)


def test_aliases_are_read_all_the_same(tmp_path):
    path = tmp_path / "few.yaml"
    path.write_text("a: &a {x: [1, 2]}\nb: [*a, *a]\nc: {<<: *a, y: 1}\n")
    inner = {"x": [1, 2]}
    assert read_yaml(path) == {"a": inner, "b": [inner, inner], "c": {**inner, "y": 1}}


@pytest.mark.parametrize("text", ["a: &a [*a]", "&a {a: *a}", "a: &a {b: [1, {c: *a}]}"])
def test_self_referencing_yaml_list_is_a_fault(tmp_path, text):
    path = tmp_path / "endless.yaml"
    path.write_text(text)
    assert faults_of(read_yaml, path) == ["is not YAML: a list or an object contains itself"]


@pytest.mark.parametrize("text", ["", "# nothing\n"])
def test_an_empty_file_is_none(tmp_path, text):
    path = tmp_path / "empty.yaml"
    path.write_text(text)
    assert read_yaml(path) is None


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ("1180591620717411303424", "should be a number of at most 64 bits, got 1180591620717411303424 @ $.a.b[1]"),
        ('"\\ud800"', "should be text, with no half characters, got '\\ud800' @ $.a.b[1]"),
        ("0x" + "f" * 9_999, "should be a number of at most 64 bits, got 0x"),
    ],
)
def test_yaml_value_without_json_equivalent_is_a_fault(tmp_path, value, fault):
    path = tmp_path / "file.yaml"
    path.write_text(f"a: {{b: [0, {value}]}}")
    (found,) = faults_of(read_yaml, path)
    assert found.startswith(fault)


def test_keys_are_whole_characters(tmp_path):
    path = tmp_path / "file.yaml"
    path.write_text('"\\ud800": 1')
    assert faults_of(read_yaml, path) == [r"""should be text, with no half characters, got '\ud800' @ $["\ud800"]"""]


@pytest.mark.parametrize("value", [".nan", ".inf", "-.inf", "[1, {a: .nan}]"])
def test_non_finite_number_in_selected_configuration_is_a_fault(tmp_path, value):
    path = tmp_path / "storm.yaml"
    path.write_text(f"topology.x: {value}\nui.x: {value}\n")
    layer = read_storm_yaml(path).layer
    StormConf([layer]).selected(("topology.",))
    (fault,) = layer.faults.faults
    assert fault.message == "should be a number that one can count to"
    assert fault.path.startswith('$["topology.x"]')


SWEEP = {"schema": "stormwright-sweep/1", "problems": ["*.json"], "schedulers": {"even": None}}


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"seeds": [1, 2**63]}, "$.seeds[1]"),
        ({"seeds": [-(2**63) - 1]}, "$.seeds[0]"),
        ({"problems": ["a", "a\0b"]}, "$.problems[1]"),
        ({"time_limit_s": 1e18}, "$.time_limit_s"),
    ],
)
def test_invalid_sweep_values_are_rejected_when_read(tmp_path, change, place):
    path = tmp_path / "sweep.json"
    path.write_bytes(orjson.dumps({**SWEEP, **change}) if place != "$.seeds[0]" else b"")
    if place == "$.seeds[0]":  # which orjson does not write, and reads as a float
        path.write_text(orjson.dumps(SWEEP).decode()[:-1] + ',"seeds":[-9223372036854775809]}')
    (fault,) = faults_of(read_sweep, path)
    assert fault.endswith(f"@ {place}")


@pytest.mark.parametrize("value", [".inf", ".nan", "[1, .inf]"])
def test_parameters_of_sweeps_are_finite(tmp_path, value):
    path = tmp_path / "sweep.yaml"
    path.write_text(f"schema: stormwright-sweep/1\nproblems: ['*.json']\nschedulers: {{online: {{gamma: {value}}}}}\n")
    (fault,) = faults_of(read_sweep, path)
    assert fault.startswith("should be a number that one can count to, got ")


#: What Flux takes a property by, as `java.util.regex` does; on long lines it takes hours.
FLUX = re.compile(r".*\$\{(?P<var>ENV-(?P<env>.+)|(?P<list>.+)\[(?P<index>\d+)\]|.+)\}.*")


def filled(line: str, properties: dict[str, str], environment: dict[str, str] | None) -> str:
    match = FLUX.search(line)
    if match is None:
        return line
    if match["index"] is not None:
        items = properties.get(match["list"], "")[1:-1].split(",")
        value = items[int(match["index"])].strip()[1:-1] if int(match["index"]) < len(items) else None
    elif environment is not None and match["env"] is not None:
        value = environment.get(match["env"])
    else:
        value = properties.get(match["var"])
    return line if value is None else line.replace(f"${{{match['var']}}}", value)


@given(
    st.lists(st.sampled_from(["${", "}", "[0]", "[1]", "ENV-", "a", "b", " ", "$", "{", "[", "]", "\u0661"])),
    st.booleans(),
)
def test_property_substitution_equals_that_of_flux(parts, with_environment):
    properties = {"a": "A", "b": "['B0', 'B1']", "ab": "AB", "ENV-a": "EA", "ENV-": "E", "a}": "brace", "a[0]} b": "x"}
    environment = {"a": "environment", "b}": "brace"} if with_environment else None
    line = "".join(parts)
    assert Substitution(properties, environment)(line) == filled(line, properties, environment)


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    ["x" * 10**6, "${" * 500_000, "${a" * 300_000 + "}", "}" * 10**6, "${a[" * 300_000 + "]}", "${a[0]" * 200_000],
    ids=["plain", "begun", "begun, ended once", "ended", "lists", "items"],
)
def test_long_lines(tmp_path, line):
    path = tmp_path / "topology.yaml"
    path.write_text(f'name: "{line}"\nspouts: [{{id: s, className: S}}]\n')
    with quickly(20):
        _, errors = read_flux([path], StormConf([]), Substitution({"b": "c"}))
    assert all(len(str(error)) < 1000 for error in errors)


def test_the_number_of_an_item_may_be_any():
    text = f"x: ${{a[{'9' * 5000}]}}"
    assert Substitution({"a": "['b']"})(text) == text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("x=" + r"\t" * 1_000_000, "\t" * 1_000_000),
        ("x=" + "\\\n" * 1_000_000 + "end", "end"),
        ("x=" + "a\\\n" * 1_000_000, "a" * 1_000_000),
    ],
    ids=["escapes", "empty lines joined", "lines joined"],
)
def test_long_properties(tmp_path, text, value):
    path = tmp_path / "long.properties"
    path.write_text(text)
    with quickly(20):
        assert read_properties(path) == {"x": value}


def include(path: Path, name: str) -> list[str]:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"includes: [{{resource: true, file: {name}}}]")
    _, errors = read_flux([path], StormConf([]))
    return [str(fault) for error in errors for fault in error.faults]


#: What is said of a resource that is missing.
HINT = "; name the jar or directory that has it by --class-path"


def test_a_resource_is_found_no_higher_than_its_class_path(tmp_path):
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "passwd").write_text("root:x:0:0:secret")
    resources = tmp_path / "src" / "main" / "resources"
    for main in (resources / "a" / "b" / "main.yaml", resources / "main.yaml", tmp_path / "x" / "y" / "main.yaml"):
        for name in ("etc/passwd", "/etc/passwd", "../../../etc/passwd", "../../../../../etc/passwd"):
            assert include(main, name) == [f"no such file: '{name}'{HINT} @ $.includes[0].file"]


def test_a_resource_behind_a_link_is_none(tmp_path):
    (tmp_path / "secret").write_text("root:x:0:0:secret")
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "link.yaml").symlink_to(tmp_path / "secret")
    (fault,) = include(tmp_path / "flows" / "deep" / "main.yaml", "link.yaml")
    assert fault.startswith("no such file")


def test_a_resource_lies_anywhere_below_its_class_path(tmp_path):
    resources = tmp_path / "src" / "main" / "resources"
    (resources / "configs").mkdir(parents=True)
    (resources / "configs" / "least.yaml").write_text("name: least\nspouts: [{id: s, className: S}]\n")
    assert include(resources / "a" / "b" / "c" / "main.yaml", "/configs/least.yaml") == []


def test_nothing_of_an_included_file_is_shown(tmp_path):
    (tmp_path / "passwd").write_text("root:x:0:0:secret")
    path = tmp_path / "main.yaml"
    path.write_text(f"includes: [{{file: {tmp_path / 'passwd'}}}]")
    _, errors = read_flux([path], StormConf([]))
    assert [str(fault) for error in errors for fault in error.faults] == ["is no Flux file: should be an object"]


def test_include_with_impossible_file_name_is_a_fault(tmp_path):
    assert include(tmp_path / "main.yaml", '"a\\0b"') == [f"no such file: 'a\\x00b'{HINT} @ $.includes[0].file"]
