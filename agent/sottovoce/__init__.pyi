from sottovoce.api import (
    Agent as Agent,
)
from sottovoce.api import (
    AgentEvent as AgentEvent,
)
from sottovoce.api import (
    Algorithm as Algorithm,
)
from sottovoce.api import (
    Budget as Budget,
)
from sottovoce.api import (
    Calibrated as Calibrated,
)
from sottovoce.api import (
    ClockError as ClockError,
)
from sottovoce.api import (
    Composed as Composed,
)
from sottovoce.api import (
    ConfigError as ConfigError,
)
from sottovoce.api import (
    DataError as DataError,
)
from sottovoce.api import (
    DiskReadOnly as DiskReadOnly,
)
from sottovoce.api import (
    Exchange as Exchange,
)
from sottovoce.api import (
    ExitCode as ExitCode,
)
from sottovoce.api import (
    GradientTerms as GradientTerms,
)
from sottovoce.api import (
    IdentityError as IdentityError,
)
from sottovoce.api import (
    InternalError as InternalError,
)
from sottovoce.api import (
    Learner as Learner,
)
from sottovoce.api import (
    Ledger as Ledger,
)
from sottovoce.api import (
    LedgerError as LedgerError,
)
from sottovoce.api import (
    MemoryTransport as MemoryTransport,
)
from sottovoce.api import (
    MessageRefused as MessageRefused,
)
from sottovoce.api import (
    NetworkError as NetworkError,
)
from sottovoce.api import (
    OperatingSystemNoise as OperatingSystemNoise,
)
from sottovoce.api import (
    Peer as Peer,
)
from sottovoce.api import (
    PluginError as PluginError,
)
from sottovoce.api import (
    PrivacyError as PrivacyError,
)
from sottovoce.api import (
    PrivacyStatement as PrivacyStatement,
)
from sottovoce.api import (
    Query as Query,
)
from sottovoce.api import (
    Records as Records,
)
from sottovoce.api import (
    Refused as Refused,
)
from sottovoce.api import (
    Release as Release,
)
from sottovoce.api import (
    SottovoceError as SottovoceError,
)
from sottovoce.api import (
    TaskRefused as TaskRefused,
)
from sottovoce.api import (
    Transport as Transport,
)
from sottovoce.api import (
    UsageError as UsageError,
)
from sottovoce.api import (
    Vault as Vault,
)
from sottovoce.api import (
    VaultAway as VaultAway,
)
from sottovoce.api import (
    build_vault as build_vault,
)
from sottovoce.api import (
    calibrate as calibrate,
)
from sottovoce.api import (
    check_records as check_records,
)
from sottovoce.api import (
    compose as compose,
)
from sottovoce.api import (
    kernel_named as kernel_named,
)

__version__: str
