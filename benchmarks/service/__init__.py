"""The service: what Nimbus and people wait for, and first answers of the command line."""
