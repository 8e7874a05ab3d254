"""What Storm and people reach over HTTP."""
