"""FHEIns, reproduced."""
