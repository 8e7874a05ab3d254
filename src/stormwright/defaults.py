"""Whom users get where they name no scheduler: the one place besides a scheduler's own file that calls it by name."""

from __future__ import annotations

#: Who decides.
DECIDING = "online"

#: Storm's own: what others are set against, and what places at once where nothing better is known yet.
STORMS_OWN = "even"

#: Who is asked for the best that a search finds.
SEARCHING = "optimizer"

#: Who decides in the demonstration, and the parameters (``KEY=VALUE``) that it has there.
DEMONSTRATED, DEMONSTRATED_WITH = DECIDING, ()
