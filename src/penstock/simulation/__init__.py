"""Prices a trace and plays it through a memory hierarchy, on one host or several.

`price` turns a trace into costs and accesses. `memory` plays one host: a cache over a tier, or several levels.
`cluster` plays several hosts, `drive` a solid-state drive, and `instorage` queries inside one. Nothing is imported
here, so that pricing and the closed forms work where the engine is not built.
"""
