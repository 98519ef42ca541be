"""The report of a run folder: one HTML file that needs no network, and one still picture."""

from penstock.lab.reports.build import build_report

__all__ = ["build_report"]
