"""How good advice is: beside an exhaustive search, and in a closed loop beside DS2, Dhalion and Stela."""
