"""Slow, obvious twins of the engine in plain Python, which differential tests hold it against."""
