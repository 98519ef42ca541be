"""Encrypted databases as programs: the packing of records, and the computation of a query.

A query reads the database once, object by object, in the order of the disk. `pir`, `ssc` and `matching` are these
computations, without files, which `penstock.runtime.scanning` has.
"""
