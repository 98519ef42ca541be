"""A solid-state drive at page granularity."""
