"""The ground of all wings: errors, units, files and processes of the host, run folders."""
