"""A first placement: topology by topology onto few nodes, or pair by pair, heaviest first."""
