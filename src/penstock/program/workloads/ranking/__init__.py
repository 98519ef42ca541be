"""Workloads that rank encrypted scores; each file is one."""
