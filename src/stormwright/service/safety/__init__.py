"""Safety of automatic moves: drained nodes, holds, anomalies, move budget."""
