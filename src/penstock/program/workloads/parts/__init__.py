"""Parts of workloads: pieces of their programs, their data and their networks."""
