"""The array core that schedulers share when they search: a layout to change, its construction, its refinement."""
