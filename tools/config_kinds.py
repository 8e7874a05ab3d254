"""Write which values Storm 2.8.3 accepts for the keys of its configuration, by the annotations of its own classes.

``python tools/config_kinds.py src/stormwright/formats/storm/config_kinds.json``
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main() -> None:
    path = ROOT / "build" / "storm" / "lib" / "*"
    command = ["java", "-Xmx200m", "-Dlog4j2.level=off", "-cp", path, ROOT / "tools" / "ConfigKinds.java"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    keys = json.loads(done.stdout.splitlines()[-1])
    Path(sys.argv[1]).write_text(json.dumps(keys, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(f"{sys.argv[1]}: {len({key for of in keys.values() for key in of})} keys")


if __name__ == "__main__":
    main()
