"""The pure part of a similarity search: sizes and places, the comparison, the tables of results."""
