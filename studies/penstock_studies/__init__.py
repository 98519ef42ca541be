"""Three papers, reproduced with penstock: commands of `penstock reproduce`, and CryptOracle's programs and files."""
