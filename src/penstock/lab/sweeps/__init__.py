"""Sweeps: many points of programs, machines, tiers, caches and clusters from one file into one table.

`spec` reads the file, `plan` makes its points and cuts them into chunks, `play` prices and plays, `local` and
`scheduler` choose the place, `store` keeps finished chunks, and `run` joins them.
"""
