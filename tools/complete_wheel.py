"""Add the jar, the documentation and a bill of materials to a wheel: ``python tools/complete_wheel.py WHEEL JAR SITE``.

The bill (CycloneDX, in ``.dist-info/sboms`` as in PEP 770) lists the wheel, the jar with its digest, and the
dependencies of a service as installed here, which is as in requirements.lock. It contains no time and no random
number, so that two builds of the same sources are equal.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from importlib.metadata import Distribution, distribution
from pathlib import Path
from uuid import UUID

from cyclonedx.contrib.hash.factories import HashTypeFactory
from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import License
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

#: Extras of the wheel that the bill covers.
EXTRAS = ("service", "report", "delta", "metis", "learn")


def bill_of_materials(wheel: Distribution, jar: Path) -> str:
    """Return the bill of a wheel with a jar, as JSON.

    Parameters
    ----------
    wheel
        Installed distribution of the same version.
    jar
        Jar that the wheel contains.
    """
    digest = hashlib.sha256(jar.read_bytes()).hexdigest()
    root = _component(PackageURL("pypi", None, wheel.name, wheel.version), _licences(wheel))
    root.type = ComponentType.APPLICATION
    packed = _component(PackageURL("maven", "io.stormwright", "stormwright-storm", wheel.version), root.licenses)
    packed.hashes.add(HashTypeFactory().from_hashlib_alg("sha256", digest))
    bom = Bom(serial_number=UUID(digest[:32]))
    bom.metadata.component = root
    bom.metadata.timestamp = None  # type: ignore[assignment]  # a bill without a time is the same each time
    name = canonicalize_name(wheel.name)
    required = _required(name, EXTRAS)
    components = {each: _listed(distribution(each)) for each in required if each != name} | {name: root}
    bom.components.update([packed, *(part for part in components.values() if part is not root)])
    bom.register_dependency(root, [packed])
    for each, extras in required.items():
        names = {canonicalize_name(need.name) for need in _needs(each, extras)} - {each}
        bom.register_dependency(components[each], [components[need] for need in sorted(names)])
    return JsonV1Dot6(bom).output_as_string(indent=1)


def _component(purl: PackageURL, licences: Iterable[License]) -> Component:
    return Component(
        name=purl.name, group=purl.namespace, version=purl.version, purl=purl, bom_ref=str(purl), licenses=licences
    )


def _listed(found: Distribution) -> Component:
    return _component(PackageURL("pypi", None, canonicalize_name(found.name), found.version), _licences(found))


def _required(name: str, extras: Iterable[str]) -> dict[str, set[str]]:
    """Return a distribution and all that it requires on this machine, each with its required extras."""
    found: dict[str, set[str]] = {}
    waiting = [(name, set(extras))]
    while waiting:
        name, wanted = waiting.pop()
        if name not in found or not wanted <= found[name]:
            found[name] = found.get(name, set()) | wanted
            waiting += [(canonicalize_name(need.name), need.extras) for need in _needs(name, found[name])]
    return found


def _needs(name: str, extras: Iterable[str]) -> list[Requirement]:
    """Return the requirements of a distribution with some extras on this machine."""
    wanted = map(Requirement, distribution(name).requires or ())
    return [
        each
        for each in wanted
        if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in ("", *extras))
    ]


def _licences(found: Distribution) -> list[License]:
    """Return the licence that the metadata of a distribution states, by expression or by classifiers."""
    if stated := found.metadata.get("License-Expression"):
        return [LicenseFactory().make_with_expression(stated)]
    classifiers = found.metadata.get_all("Classifier") or ()
    named = (each.rpartition(" :: ")[2] for each in classifiers if each.startswith("License :: "))
    return [LicenseFactory().make_with_name(name) for name in named]


def complete(wheel: Path, jar: Path, site: Path) -> None:
    """Replace a wheel by one that contains the jar, the documentation and the bill of materials.

    Parameters
    ----------
    wheel
        Wheel of this package; it is replaced.
    jar
        Jar of the Java module.
    site
        Directory of the built documentation.

    Raises
    ------
    subprocess.CalledProcessError
        The wheel cannot be unpacked or packed.
    """
    own = distribution("stormwright")
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run(
            [sys.executable, "-m", "wheel", "unpack", "--dest", directory, wheel], check=True, stdout=subprocess.DEVNULL
        )
        (root,) = Path(directory).iterdir()
        shutil.copyfile(jar, root / "stormwright" / "storm" / jar.name)
        shutil.copytree(site, root / "stormwright" / "documentation")
        (information,) = root.glob("*.dist-info")
        (information / "sboms").mkdir()
        (information / "sboms" / "stormwright.cdx.json").write_text(bill_of_materials(own, jar), encoding="utf-8")
        subprocess.run(
            [sys.executable, "-m", "wheel", "pack", "--dest-dir", wheel.parent, root],
            check=True,
            stdout=subprocess.DEVNULL,
        )


if __name__ == "__main__":
    complete(*map(Path, sys.argv[1:4]))
