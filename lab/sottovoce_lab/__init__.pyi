from sottovoce_lab.api import (
    Audit as Audit,
    DataWarning as DataWarning,
    Finding as Finding,
    FleetClassifier as FleetClassifier,
    FleetRegressor as FleetRegressor,
    PrivacyWarning as PrivacyWarning,
    Progress as Progress,
    RangeWarning as RangeWarning,
    Run as Run,
    Runs as Runs,
    audit as audit,
    simulate as simulate,
)
