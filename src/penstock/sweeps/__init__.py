"""Sweeps: many points of programs, machines, tiers, caches and clusters from one file into one table.

`spec` reads the file, `plan` makes its points and cuts them into chunks, `play` prices and plays, `local` and
`scheduler` say where, `store` keeps what is finished, and `run` holds them together.
"""
