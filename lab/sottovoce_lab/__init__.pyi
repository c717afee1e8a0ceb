from sottovoce_lab.api import (
    Audit as Audit,
)
from sottovoce_lab.api import (
    DataWarning as DataWarning,
)
from sottovoce_lab.api import (
    Finding as Finding,
)
from sottovoce_lab.api import (
    FleetClassifier as FleetClassifier,
)
from sottovoce_lab.api import (
    FleetRegressor as FleetRegressor,
)
from sottovoce_lab.api import (
    PrivacyWarning as PrivacyWarning,
)
from sottovoce_lab.api import (
    Run as Run,
)
from sottovoce_lab.api import (
    Runs as Runs,
)
from sottovoce_lab.api import (
    audit as audit,
)
from sottovoce_lab.api import (
    simulate as simulate,
)
