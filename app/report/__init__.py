"""The report: what one run reached and cost, or several runs side by side, as one HTML file that needs no network."""

from app.report.page import write_report

__all__ = ["write_report"]
