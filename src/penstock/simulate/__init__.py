"""Prices a trace and plays it through a memory hierarchy.

`price` turns a trace into costs and accesses, `hierarchy` is the engine's facade, `oracle` its slow twin in plain
Python, `study` gives flat rows for machines, tiers and caches. Nothing is imported here, so that pricing and the closed
forms work where the engine is not built.
"""
