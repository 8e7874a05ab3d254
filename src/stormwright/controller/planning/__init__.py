"""From a wished placement to moves in an order in which Storm can make them."""
