"""The storage-I/O study, reproduced."""
