"""Makes the format ``stormwright`` known to Spark, which imports the packages with this prefix."""

from stormwright.history.data_source.source import StormwrightSource as DefaultSource

__all__ = ["DefaultSource"]
