"""A problem by hand, placed by three schedulers, and how near the best of them is to what is possible.

Run it: ``python examples/first_steps.py``.
"""

import stormwright as sw

problem = sw.sketch(
    {"words": "lines 2 -> split 4 -> count 4 fields", "clicks": "clicks 3 -> parse 6 -> join 3 fields -> store 3"},
    nodes=6,
    cores=0.5,
    rate_tps=500,
)

print(sw.compare(problem, "even,online,optimizer"))
print()
placement = sw.place(problem, "optimizer")
print(placement.summary())
print()
proven = sw.bound(problem, placement, seconds=5)
print(f"no valid placement allows more than {proven['bound']:,.3f} times the rates; this one {proven['factor']:,.3f}")
