"""When nothing may move, and which nodes are not to be used any more; all of it pure."""
