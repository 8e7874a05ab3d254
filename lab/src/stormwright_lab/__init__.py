"""The laboratory: comparisons, fault injection and training of stormwright, which no operator needs."""

__version__ = "0.1.0"
