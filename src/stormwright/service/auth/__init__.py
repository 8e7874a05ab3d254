"""Who may ask the service for what: tokens, sessions of browsers, limits, and the log of changes and refusals."""
