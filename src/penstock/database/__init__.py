"""Encrypted databases: how records are packed, what a query computes on them, and how they lie on disk.

A query reads the database once, object by object, in the order of the disk. `pir`, `ssc` and `matching` are these
computations, without files; `store`, `load` and `stream` are the files.
"""
