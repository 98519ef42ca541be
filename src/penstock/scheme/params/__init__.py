"""Checked parameter sets, exact sizes, security and primes."""
