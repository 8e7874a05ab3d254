"""HTTP interface of the service: scheduling requests, deliveries of records, API and metrics."""
