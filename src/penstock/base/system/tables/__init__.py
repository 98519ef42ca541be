"""Parquet and Arrow tables: their bounds, their checksum, and their size before they are decoded."""
