"""The version of the package and of its engine."""

__version__ = "0.1.0"
