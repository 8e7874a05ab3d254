"""Tables: definitions, locations, and ingestion of staged rows."""
