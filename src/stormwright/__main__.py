"""Entry point of ``python -m stormwright``."""

from __future__ import annotations

from stormwright.cli import main

if __name__ == "__main__":
    main()
