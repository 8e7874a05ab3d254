"""The search: how near to the best it comes, how soon, and what is proven of it."""
