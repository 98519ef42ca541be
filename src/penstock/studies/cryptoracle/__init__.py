"""CryptOracle, reproduced."""
