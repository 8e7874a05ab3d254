"""The laboratory: what compares, breaks and trains stormwright, and what no operator needs."""

__version__ = "0.1.0"
