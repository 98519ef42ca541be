"""Queries over encrypted databases inside a drive."""
