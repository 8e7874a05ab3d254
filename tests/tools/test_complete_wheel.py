"""Bills of materials of wheels."""

from __future__ import annotations

import json
from importlib.metadata import distribution

from tools.complete_wheel import bill_of_materials

#: Distribution → its requirements: the extra of b is required by c alone, and its own extra by itself.
REQUIRED = {
    "root": ['b; extra == "service"', "c>=1"],
    "b": ['d; extra == "fast"', 'b[slow]; extra == "fast"', 'e; extra == "slow"', 'missing; extra == "other"'],
    "c": ["B[fast]", 'missing; sys_platform == "none"'],
    "d": [],
    "e": ["c"],
}


def test_bill_has_what_extras_of_requirements_require(tmp_path, monkeypatch):
    for name, requirements in REQUIRED.items():
        (tmp_path / f"{name}-1.dist-info").mkdir()
        lines = [
            "Metadata-Version: 2.1",
            f"Name: {name}",
            "Version: 1",
            *(f"Requires-Dist: {each}" for each in requirements),
        ]
        (tmp_path / f"{name}-1.dist-info" / "METADATA").write_text("\n".join(lines), encoding="utf-8")
    jar = tmp_path / "a.jar"
    jar.write_bytes(b"jar")
    monkeypatch.syspath_prepend(tmp_path)
    bill = json.loads(bill_of_materials(distribution("root"), jar))
    assert {part["name"] for part in bill["components"]} == {"b", "c", "d", "e", "stormwright-storm"}
    needs = {each["ref"]: each.get("dependsOn", []) for each in bill["dependencies"]}
    assert needs["pkg:pypi/b@1"] == ["pkg:pypi/d@1", "pkg:pypi/e@1"]
    assert needs["pkg:pypi/c@1"] == ["pkg:pypi/b@1"]
    assert needs["pkg:pypi/e@1"] == ["pkg:pypi/c@1"]
