"""Encrypted databases: the packing of records, the computation of a query, and the layout on disk.

A query reads the database once, object by object, in the order of the disk. `pir`, `ssc` and `matching` are these
computations, without files; `store`, `load` and `stream` are the files.
"""
