"""JSON Schemas of Kubernetes' resources for kubeconform, from packages: ``kubernetes_schemas.py WHEEL CRDS OUTPUT``.

WHEEL is that of the Python package kubernetes-validate, which has the API of each version; CRDS is the directory of the
custom resources of the Prometheus operator. OUTPUT gets a directory for each version in `VERSIONS`, and ``crds``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import yaml

#: The oldest version that the chart allows, and the newest one.
VERSIONS = ("1.25.0", "1.37.0")

#: Custom resources that the chart can create.
CRDS = ("servicemonitors", "prometheusrules")


def main(wheel: Path, crds: Path, output: Path) -> None:
    """Write the schemas.

    Parameters
    ----------
    wheel
        The package kubernetes-validate.
    crds
        Directory with the custom resources, one a file.
    output
        Directory to write to.
    """
    with ZipFile(wheel) as archive:
        for version in VERSIONS:
            (output / f"v{version}").mkdir(parents=True)
            prefix = f"kubernetes_validate/kubernetes-json-schema/v{version}-local-strict/"
            for name in archive.namelist():
                if name.startswith(prefix):
                    schema = _with_relative_references(json.loads(archive.read(name)))
                    (output / f"v{version}" / name.removeprefix(prefix)).write_text(json.dumps(schema), "utf-8")
    (output / "crds").mkdir()
    for plural in CRDS:
        resource = yaml.safe_load((crds / f"monitoring.coreos.com_{plural}.yaml").read_text("utf-8"))["spec"]
        for version in resource["versions"]:
            name = f"{resource['names']['singular']}-{resource['group'].partition('.')[0]}-{version['name']}.json"
            schema = _closed(version["schema"]["openAPIV3Schema"])
            (output / "crds" / name).write_text(json.dumps(schema), "utf-8")


def _with_relative_references(schema: Any) -> Any:
    """Return a schema that refers to a file beside it, not to an address."""
    if isinstance(schema, list):
        return [_with_relative_references(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _with_relative_references(value) for key, value in schema.items()}
    if isinstance(found.get("$id"), str):
        del found["$id"]
    if isinstance(found.get("$ref"), str):
        found["$ref"] = found["$ref"].removeprefix("/api/")
    return found


def _closed(schema: Any) -> Any:
    """Return a schema that refuses unknown keys, as the API server does with strict validation."""
    if isinstance(schema, list):
        return [_closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _closed(value) for key, value in schema.items()}
    is_open = "additionalProperties" in found or found.get("x-kubernetes-preserve-unknown-fields")
    # Metadata has no properties in a custom resource's schema; the API server knows them.
    if found.get("type") == "object" and isinstance(found.get("properties"), dict) and not is_open:
        found["additionalProperties"] = False
    return found


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
