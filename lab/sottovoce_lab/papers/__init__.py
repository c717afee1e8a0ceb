"""Figures and tables of four papers, and of this project: specifications, runs, verdicts, pages."""

from sottovoce_lab.papers.output import reproduce, write_pages
from sottovoce_lab.papers.specification import experiments, papers

__all__ = ["experiments", "papers", "reproduce", "write_pages"]
