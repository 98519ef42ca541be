"""Prices a trace and plays it through a memory hierarchy, on one host or several.

`price` turns a trace into costs and accesses, `hierarchy` is the engine's facade, `study` gives flat rows for machines,
tiers and caches; `levels_replay` and `levels_time` play several memory levels, `levels_study` gives their rows;
`cluster` plays several hosts, `cluster_rows` gives theirs. Nothing is imported here, so that pricing and the closed
forms work where the engine is not built.
"""
