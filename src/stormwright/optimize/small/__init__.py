"""A search of small problems, on dense arrays: every step is looked at before one is made.

With up to 64 executors there are some thousand steps, and all of their costs are at hand (`dense`). So the best one is
made each time (`tabu`), where larger problems have random ones tried.
"""
