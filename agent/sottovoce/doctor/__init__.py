"""Read-only diagnosis of a device for `sottovoce doctor`."""

from sottovoce.doctor.examination import SCHEMA, Entry, document, exit_code, run_checks
from sottovoce.doctor.finding import Finding, Level
from sottovoce.doctor.subject import Subject, subject_of

__all__ = ["SCHEMA", "Entry", "Finding", "Level", "Subject", "document", "exit_code", "run_checks", "subject_of"]
