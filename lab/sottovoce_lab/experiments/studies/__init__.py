"""Tables and figures of the papers whose devices hold many records: agents under the virtual clock, run by run."""

from sottovoce_lab.experiments.studies.output import conduct
from sottovoce_lab.experiments.studies.specification import StudySpec, studies, study_named

__all__ = ["StudySpec", "conduct", "studies", "study_named"]
