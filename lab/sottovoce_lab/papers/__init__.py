"""Figures and tables from four papers and from this project, with their specifications, runs, verdicts and pages."""

from sottovoce_lab.papers.output import reproduce, write_pages
from sottovoce_lab.papers.specification import experiments, papers

__all__ = ["experiments", "papers", "reproduce", "write_pages"]
