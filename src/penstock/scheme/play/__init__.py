"""Prices a trace and plays it through one memory: costs of operations, caches, policies, time modes."""
