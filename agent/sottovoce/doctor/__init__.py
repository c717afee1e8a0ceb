"""Diagnosis of a device from outside, which changes nothing: `sottovoce doctor`."""

from sottovoce.doctor.examination import SCHEMA, Entry, document, examined, exit_code
from sottovoce.doctor.finding import Finding, Level
from sottovoce.doctor.subject import Subject, subject_of

__all__ = ["SCHEMA", "Entry", "Finding", "Level", "Subject", "document", "examined", "exit_code", "subject_of"]
