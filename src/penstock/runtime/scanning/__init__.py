"""Encrypted databases on disk: made, queried by reading them once, and the disk measured."""
