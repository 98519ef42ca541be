"""OpenFHE's composites as circuits, step for step: series, sums over slots, bootstrapping.

Their counts of key switches, decompositions and rescales equal the library's, counted from outside in tests/system.
"""
