"""Access to the service: tokens, browser sessions, rate limits, and the audit log."""
