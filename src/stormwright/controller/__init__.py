"""Control of a cluster: deciding when to move, planning the moves, and making them."""
