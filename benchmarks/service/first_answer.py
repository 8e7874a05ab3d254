"""How long the first answer takes: in a fresh clone after its set-up, and from a wheel that nobody may write to.

The clone is this commit's sources, elsewhere. The wheel is built there and installed in an environment of its own, with
the packages of this one beside it; it is used by another user (if run by root and there is one that may read Python's
files), with no home, and all files are only to be read. Every time is the best of a few processes, the first of which
has read the files from the disk; none of them has anything cached but what came with the set-up or the wheel.

With ``--set-up`` two more clones are set up by ``make setup`` as on a new machine, with nothing of pip's and Maven's
downloads kept: one that makes its machine code beside its downloads, and one that is told that it has it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import site
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.kit.results import ROOT, write_results

#: Code that the page measures.
MEASURES = (
    "src/stormwright/cli/__init__.py",
    "src/stormwright/jit",
    "src/stormwright/optimize/precompile.py",
)

CASE = ROOT / "tests" / "cases" / "placement" / "s01_excl18_n5.json.gz"

#: Runs the command line and says how many functions Numba compiled, and how many had been by then.
COUNT = """\
import json, sys
from stormwright.cli import run
code = run(sys.argv[1:])
compiled = None
if "numba" in sys.modules:
    from stormwright.jit.compiled import ENTRIES
    compiled = sum(sum(each.stats.cache_misses.values()) for each in ENTRIES)
    taken_up = sum(sum(each.stats.cache_hits.values()) for each in ENTRIES)
print(json.dumps({"code": code, "compiled": compiled, "taken_up": taken_up if compiled is not None else None}))
"""

VERBS = {
    "first `schedule --scheduler optimizer`, small problem": ["schedule", str(CASE), "--scheduler", "optimizer"],
    "first `schedule --scheduler online`": ["schedule", str(CASE), "--scheduler", "online"],
    "`schedule --scheduler even`": ["schedule", str(CASE), "--scheduler", "even"],
    "`--help`": ["--help"],
}
ASKED = dict(zip(VERBS, ("≤ 4 s", "", "≤ 0.5 s", "≤ 0.15 s"), strict=True))


def timed(python: list[str], environment: dict[str, str], arguments: list[str], times: int) -> float:
    """Seconds of the fastest of so many processes."""
    seconds = []
    for _ in range(times):
        begun_s = time.perf_counter()
        command = [*python, "-m", "stormwright", *arguments]
        subprocess.run(command, env=environment, cwd="/", stdout=subprocess.DEVNULL, check=True)
        seconds.append(time.perf_counter() - begun_s)
    return min(seconds)


def compiled_by(python: list[str], environment: dict[str, str], arguments: list[str]) -> dict[str, int]:
    """What a process compiled, and what it took up."""
    command = [*python, "-c", COUNT, *arguments]
    done = subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def make_clone(directory: Path) -> tuple[dict[str, str], float]:
    """This commit's sources with machine code made: the environment to use them in, and the seconds that took."""
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True).stdout
    subprocess.run(["tar", "xf", "-", "-C", directory], input=archive, check=True)
    environment = {**os.environ, "PYTHONPATH": str(directory / "src"), "NUMBA_CACHE_DIR": str(directory / "cache")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # else each process would compile all of Python anew
    begun_s = time.perf_counter()
    subprocess.run([sys.executable, "-m", "stormwright.workbench.machine_code"], env=environment, check=True)
    return environment, time.perf_counter() - begun_s


def set_up(directory: Path, *, ahead: bool) -> float:
    """Seconds of ``make setup`` in a new clone that downloads all it needs; without `ahead` it compiles nothing."""
    subprocess.run(["git", "clone", "--quiet", ROOT, directory], check=True)
    if not ahead:  # a file newer than all sources is what make takes for machine code that is there
        done = directory / "build" / ".machine-code"
        done.parent.mkdir()
        done.touch()
        os.utime(done, (time.time() + 86_400,) * 2)
    local = f"-Dmaven.repo.local={directory / 'build' / 'maven'}"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"PIP_NO_CACHE_DIR": "1", "MAVEN_OPTS": local}
    begun_s = time.perf_counter()
    subprocess.run(["make", "setup"], cwd=directory, env=environment, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begun_s


def install_wheel(clone: Path, directory: Path) -> tuple[list[str], dict[str, str], float]:
    """The wheel of a clone, installed: how Python is called for another user, with which environment; its MB."""
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", directory, clone], check=True)
    (wheel,) = directory.glob("*.whl")
    other, base = other_user()
    subprocess.run([base, "-m", "venv", "--without-pip", directory / "venv"], check=True)
    python = directory / "venv" / "bin" / "python"
    subprocess.run([*pip, "--python", python, "install", "--no-deps", "--ignore-installed", wheel], check=True)
    (packages,) = (directory / "venv" / "lib").glob("python*/site-packages")
    (packages / "beside.pth").write_text("\n".join(site.getsitepackages()) + "\n", encoding="utf-8")
    subprocess.run(["chmod", "-R", "a+rX,a-w", directory], check=True)
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1"}
    return [*other, str(python)], environment, wheel.stat().st_size / 1e6


def other_user() -> tuple[list[str], str]:
    """What a command begins with to be run by another user, and a Python of this version that this one may run."""
    other = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
    name = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    for base in (os.path.realpath(sys.executable), shutil.which(name, path="/usr/local/bin:/usr/bin")):
        if os.getuid() == 0 and base:
            able = subprocess.run([*other, base, "-c", ""], cwd="/", capture_output=True, check=False)
            if not able.returncode:
                return other, base
    return [], sys.executable


def main() -> None:
    """Measure, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=5, help="processes of which the fastest counts")
    parser.add_argument("--set-up", action="store_true", help="also the whole set-up of a clone, in minutes")
    options = parser.parse_args()
    times = options.times
    rows: list[tuple[str, str, str]] = []
    details: dict[str, Any] = {}
    directory = Path(tempfile.mkdtemp(prefix="stormwright-first-"))
    directory.chmod(0o755)
    try:
        clone, installed = directory / "clone", directory / "installed"
        clone.mkdir()
        installed.mkdir()
        environment, ahead_s = make_clone(clone)
        rows.append(("compiling ahead, nothing beside it", "", f"{ahead_s:.0f} s"))
        if options.set_up:
            took_s = [set_up(directory / f"ahead-{ahead}", ahead=ahead) for ahead in (False, True)]
            found = f"{took_s[1] - took_s[0]:.0f} s ({took_s[1]:.0f} s, without {took_s[0]:.0f} s)"
            rows.append(("compiling ahead beside the downloads of a clone's set-up", "≤ 40 s longer", found))
            details["set-up without and with compiling ahead, seconds"] = took_s
        python, bare, wheel_mb = install_wheel(clone, installed)
        user = "another user" if python[0] == "setpriv" else "the same user"
        places = (("clone", [sys.executable], environment), (f"wheel, read-only, {user}", python, bare))
        for place, command, variables in places:
            for what, arguments in VERBS.items():
                seconds = timed(command, variables, arguments, times)
                counts = compiled_by(command, variables, arguments)
                rows.append((f"{what}, {place}", ASKED[what], f"{seconds:.2f} s"))
                if counts["compiled"] is not None:
                    rows.append((f"functions compiled by it, {place}", "0", f"{counts['compiled']}"))
                details[f"{what}, {place}"] = {"seconds": seconds, **counts}
        rows.append(("size of the wheel", "", f"{wheel_mb:.1f} MB"))
    finally:
        subprocess.run(["chmod", "-R", "u+w", directory], check=False)
        shutil.rmtree(directory)
    write_results("first-answer", "First answer", rows, {"ahead_s": ahead_s, "runs": details})


if __name__ == "__main__":
    main()
