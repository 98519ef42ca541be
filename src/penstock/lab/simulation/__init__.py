"""Prices a trace and plays it through a memory hierarchy, on one host or several.

`question` defines a question and makes its points, `play` plays them, `rows` has the columns of the answers. Below
them: `price` turns a trace into costs and accesses; `host` plays one host over a tier or over levels (`memory`),
`cluster` several hosts, `drive` a solid-state drive, and `instorage` queries inside one. Nothing is imported here, so
that pricing and the closed forms work where the engine is not built.
"""
