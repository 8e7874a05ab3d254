"""The dashboard: pages of what the service knows, made on the server; they need no other machine and no JavaScript."""
