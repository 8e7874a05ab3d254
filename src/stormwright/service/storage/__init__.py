"""What a service keeps for later: its history, and minutes for forecasts."""
