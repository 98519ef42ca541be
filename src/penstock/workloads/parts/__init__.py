"""What workloads are made of: parts of their programs, their data and their networks."""
