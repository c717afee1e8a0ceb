"""Read-only diagnosis of a device for `sottovoce doctor`."""

from sottovoce.doctor.examination import SCHEMA, Entry, document, exit_code, run_checks
from sottovoce.doctor.finding import Finding, Level
from sottovoce.doctor.subject import Subject, load_subject

__all__ = ["SCHEMA", "Entry", "Finding", "Level", "Subject", "document", "exit_code", "load_subject", "run_checks"]
