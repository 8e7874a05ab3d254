"""Planning of moves: from a wanted placement to steps that Storm can make."""
