"""What came of moves: windows before and after them, judged."""
