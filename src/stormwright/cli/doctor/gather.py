"""Collect the facts for ``stormwright doctor``; missing or broken parts do not stop it."""

from __future__ import annotations

import hashlib
import json
import re
import socket
import sys
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from stormwright import __version__
from stormwright.base.java import OLDEST, find_java
from stormwright.cli.asking import token_from_environment
from stormwright.cli.doctor.facts import Facts, Installation, Jar, ServiceFacts
from stormwright.cli.storm_yaml import path_of, read, seeds_of
from stormwright.client import Client
from stormwright.client.client import bearing
from stormwright.errors import InputError, MissingDependencyError

#: Seconds for each connection.
LIMIT_S = 5.0

#: Of an answer, so much is read at most.
_MAX_BYTES = 64 * 2**20

_JAR = "stormwright-storm-*.jar"

#: Keys of storm.yaml that name files by which Nimbus and the service know each other.
_CREDENTIALS = ("stormwright.token.file", "stormwright.tls.ca", "stormwright.tls.cert", "stormwright.tls.key")


def gathered(storm_home: Path | None, address: str) -> Facts:
    """Return the facts of this machine, of the Storm installation if there is one, and of the service.

    Raises
    ------
    InputError
        The address is invalid.
    """
    from stormwright.storm.jvm import STORMWRIGHT_JAR

    java, why_not = _java()
    able, compiled, unfit = _compiled()
    return Facts(
        version=__version__,
        python=(sys.version_info.major, sys.version_info.minor),
        java=java,
        java_why_not=why_not,
        built=_jar(STORMWRIGHT_JAR) if STORMWRIGHT_JAR.is_file() else None,
        able=able,
        compiled=compiled,
        unfit=unfit,
        installation=_installation(storm_home) if storm_home else None,
        service=_service(Client(address, "doctor").address),
    )


def _java() -> tuple[str | None, str]:
    try:
        return f"{OLDEST} or later: {find_java('Storm')}", ""
    except MissingDependencyError as error:
        return None, str(error)


def _compiled() -> tuple[bool | None, int, tuple[str, ...]]:
    """Return whether this processor is supported by prebuilt code, the fitting files, and packages without any."""
    try:
        from stormwright.jit.cache import compiled_packages, supports_prebuilt
    except ImportError:
        return None, 0, ()
    tag = sys.implementation.cache_tag
    fit = {
        package.path.name: sum(
            package.short_digest in path.name and tag in path.name for path in package.prebuilt_folder.glob("*.nbc")
        )
        for package in compiled_packages()
    }
    return supports_prebuilt(), sum(fit.values()), tuple(name for name, count in fit.items() if not count)


def _installation(home: Path) -> Installation:
    conf, fault = None, ""
    try:
        conf = read(home)
    except InputError as error:
        readable = not _unreadable(str(path_of(home)))
        fault = error.faults[0].message if readable else ""
    version = next((re.search(r"storm-client-(.+)\.jar$", path.name) for path in home.glob("lib/storm-client-*")), None)
    return Installation(
        home=str(home),
        jars=[_jar(path) for path in sorted((home / "extlib-daemon").glob(_JAR))],
        storm_version=version[1] if version else None,
        yaml_path=str(path_of(home)),
        conf=conf,
        nimbus={f"{host}:{port}": _connects(host, port) for host, port in seeds_of(conf)} if conf is not None else {},
        credentials={key: _unreadable(str(conf[key])) for key in _CREDENTIALS if conf and conf.get(key)},
        yaml_there=conf is not None or _is_there(path_of(home)),
        yaml_fault=fault,
    )


def _is_there(path: Path) -> bool:
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:  # unknown: assume that it exists
        return True
    return True


def _unreadable(path: str) -> str:
    try:
        Path(path).open("rb").close()
    except OSError as error:
        return f"{path}: {error.strerror}"
    return ""


def _jar(path: Path) -> Jar:
    version = path.stem.removeprefix("stormwright-storm-")
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:  # another user's: an equal one it is not known to be
        digest = str(error)
    return Jar(str(path), version, digest)


def _connects(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), LIMIT_S):
            return True
    except (OSError, UnicodeError, OverflowError):
        return False


def _service(address: str) -> ServiceFacts:
    try:
        code, headers, body = _get(address, "/")
    except (OSError, HTTPException) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
        return ServiceFacts(address, why_not=f"no answer ({why})")
    if code in (401, 403):
        return ServiceFacts(address, why_not=str(_object(body).get("error")), requires_token=True)
    answer = re.fullmatch(r"stormwright (\S+)", str(_object(body).get("service")))
    if answer is None:
        return ServiceFacts(address, why_not=f"answers with status {code}, but is not a stormwright service")
    try:
        question = {200: True, 503: False}.get(_get(address, "/v1/problem", most_bytes=0)[0])
        status = _object(_get(address, "/v1/status")[2])
    except (OSError, HTTPException):
        question, status = None, {}
    return ServiceFacts(address, None, answer[1], _skew_s(headers), question, status)


def _get(address: str, path: str, most_bytes: int = _MAX_BYTES) -> tuple[int, Mapping[str, str], bytes]:
    """Return status, headers and body of a response."""
    parts = urlsplit(address)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=LIMIT_S)
    try:
        connection.request("GET", path, headers={"accept": "application/json"} | bearing(token_from_environment()))
        response: HTTPResponse = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read(most_bytes)
    finally:
        connection.close()


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _skew_s(headers: Mapping[str, str]) -> float | None:
    answer = {name.lower(): value for name, value in headers.items()}.get("date")
    try:
        # Truncated to whole seconds: on average half a second less than the time.
        return parsedate_to_datetime(answer).timestamp() + 0.5 - time.time() if answer else None
    except (ValueError, TypeError):
        return None
