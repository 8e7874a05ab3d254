"""The main job on a real cluster, measured and reported."""
