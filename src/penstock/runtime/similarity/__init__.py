"""Fetch by similarity: the records of an encrypted database that are near an encrypted query, out of core."""
