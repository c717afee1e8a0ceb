from sottovoce_lab.library import (
    Audit as Audit,
)
from sottovoce_lab.library import (
    Finding as Finding,
)
from sottovoce_lab.library import (
    FleetClassifier as FleetClassifier,
)
from sottovoce_lab.library import (
    FleetRegressor as FleetRegressor,
)
from sottovoce_lab.library import (
    PrivacyWarning as PrivacyWarning,
)
from sottovoce_lab.library import (
    Run as Run,
)
from sottovoce_lab.library import (
    Runs as Runs,
)
from sottovoce_lab.library import (
    audit as audit,
)
from sottovoce_lab.library import (
    simulate as simulate,
)
