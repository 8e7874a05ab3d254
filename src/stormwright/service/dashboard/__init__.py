"""The dashboard: pages rendered on the server, without external resources or JavaScript."""
