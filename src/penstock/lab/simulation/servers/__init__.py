"""Servers under a stream of applications: dedicated to their users, or shared, with keys that are loaded again."""
