# The names of plugin.py for type checkers; tests/unit/plugins/test_plugin_door.py compares both.

from sottovoce.algorithms.family import (
    Family as Family,
    LearnerAndCodec as LearnerAndCodec,
    StoredRecords as StoredRecords,
    build_kernel as build_kernel,
    feature_scaling as feature_scaling,
    settings_of as settings_of,
)
from sottovoce.algorithms.published import (
    published_terms as published_terms,
)
from sottovoce.algorithms.push_sum.algorithm import (
    noisy_sums_algorithm as noisy_sums_algorithm,
    share_codec as share_codec,
)
from sottovoce.algorithms.push_sum.codec import (
    PushSumCodec as PushSumCodec,
)
from sottovoce.algorithms.push_sum.public.machine import (
    WEIGHT_ONE as WEIGHT_ONE,
    PushSum as PushSum,
    PushSumState as PushSumState,
)
from sottovoce.algorithms.push_sum.settings import (
    ClipD2pSettings as ClipD2pSettings,
    Clipping as Clipping,
)
from sottovoce.algorithms.rounds.public import (
    Work as Work,
)
from sottovoce.algorithms.rounds.public.work import (
    Floats as Floats,
    RoundAlgorithm as RoundAlgorithm,
)
from sottovoce.algorithms.rounds.registration import (
    rounds_algorithm as rounds_algorithm,
)
from sottovoce.algorithms.rounds.rule import (
    Rule as Rule,
)
from sottovoce.algorithms.rounds.settings import (
    RoundsSettings as RoundsSettings,
)
from sottovoce.algorithms.state_codec import (
    ModelSizeMismatch as ModelSizeMismatch,
    saved_model as saved_model,
)
from sottovoce.algorithms.steps.public.descent import (
    MAX_NUMERATOR as MAX_NUMERATOR,
    UNIT as UNIT,
    Schedule as Schedule,
    round_and_clip as round_and_clip,
)
from sottovoce.config import (
    AgentConfig as AgentConfig,
)
from sottovoce.data import (
    Declaration as Declaration,
    Records as Records,
    Table as Table,
    load as load,
    prepare_records as prepare_records,
    uniform_bounds as uniform_bounds,
    width as width,
)
from sottovoce.data.feed import (
    MeterSource as MeterSource,
)
from sottovoce.data.spec import (
    DataKind as DataKind,
)
from sottovoce.data.stability import (
    EXTREMES as EXTREMES,
)
from sottovoce.errors import (
    ConfigError as ConfigError,
    DataError as DataError,
    IdentityError as IdentityError,
    InternalError as InternalError,
    MessageRefused as MessageRefused,
    PrivacyError as PrivacyError,
    SottovoceError as SottovoceError,
)
from sottovoce.kernels import (
    Kernel as Kernel,
    Model as Model,
)
from sottovoce.kernels.binary import (
    Logistic as Logistic,
)
from sottovoce.kernels.decentralised.chain_steps import (
    StepSchedule as StepSchedule,
    constant as constant,
    global_step as global_step,
    inverse_square_root as inverse_square_root,
    local_step as local_step,
    project_onto_ball as project_onto_ball,
    strongly_convex as strongly_convex,
)
from sottovoce.kernels.gossip_rules import (
    SLOPES as SLOPES,
    UPDATE_RULES as UPDATE_RULES,
    Slope as Slope,
    UpdateRule as UpdateRule,
    descend as descend,
    descents as descents,
    merge as merge,
)
from sottovoce.kernels.least_squares import (
    ridge as ridge,
)
from sottovoce.kernels.linear import (
    OneVsAll as OneVsAll,
    targets as targets,
)
from sottovoce.kernels.mlp import (
    Perceptron as Perceptron,
)
from sottovoce.kernels.softmax import (
    Softmax as Softmax,
)
from sottovoce.learning.learners import (
    Ask as Ask,
    Effect as Effect,
    Forget as Forget,
    Learner as Learner,
    Message as Message,
    Progress as Progress,
    Provenance as Provenance,
    PublishModel as PublishModel,
    Reply as Reply,
    Send as Send,
)
from sottovoce.learning.learners.learner import (
    Delivered as Delivered,
    Event as Event,
    PeersChanged as PeersChanged,
    Received as Received,
    Returned as Returned,
    SetTimer as SetTimer,
    SettlingState as SettlingState,
    Shelve as Shelve,
    Timer as Timer,
    free_peer_indices as free_peer_indices,
    shape_refusal as shape_refusal,
)
from sottovoce.learning.learners.machine import (
    Machine as Machine,
    MachineState as MachineState,
)
from sottovoce.learning.learners.published_records import (
    Holding as Holding,
    Perturbation as Perturbation,
    PublishedRecord as PublishedRecord,
    Shelf as Shelf,
)
from sottovoce.learning.registry import (
    Algorithm as Algorithm,
    Relation as Relation,
)
from sottovoce.learning.settings import (
    Batch as Batch,
    BeginsWalk as BeginsWalk,
    Clip as Clip,
    Deadline as Deadline,
    GradientSettings as GradientSettings,
    LearnerSettings as LearnerSettings,
    LongestPeriod as LongestPeriod,
)
from sottovoce.net.transports import (
    DeliveryFailed as DeliveryFailed,
    Listener as Listener,
    Peer as Peer,
    Receive as Receive,
    Transport as Transport,
)
from sottovoce.net.transports.plugin import (
    TransportContext as TransportContext,
    TransportPlugin as TransportPlugin,
)
from sottovoce.net.wire.arrays import (
    MAX_COUNT as MAX_COUNT,
    MAX_PARAMETERS as MAX_PARAMETERS,
    check_model as check_model,
    from_float32 as from_float32,
    to_float32 as to_float32,
)
from sottovoce.net.wire.plain import (
    PlainCodec as PlainCodec,
    PlainStateCodec as PlainStateCodec,
)
from sottovoce.net.wire.published import (
    records_from_wire as records_from_wire,
    records_to_wire as records_to_wire,
)
from sottovoce.plugins import (
    MECHANISM as MECHANISM,
    installed_plugins as installed_plugins,
)
from sottovoce.privacy.accounting.units import (
    EVERY as EVERY,
    Units as Units,
)
from sottovoce.privacy.api import (
    Answer as Answer,
    PrivacyStatement as PrivacyStatement,
    Query as Query,
    Refused as Refused,
    Release as Release,
    Status as Status,
)
from sottovoce.privacy.ledger.budget import (
    Budget as Budget,
)
from sottovoce.privacy.ledger.ledger import (
    Ledger as Ledger,
)
from sottovoce.privacy.mechanisms.bounded_point import (
    BoundedPoint as BoundedPoint,
    calibrate_point as calibrate_point,
)
from sottovoce.privacy.mechanisms.clipped_sum import (
    Batches as Batches,
)
from sottovoce.privacy.mechanisms.noise import (
    NoiseSource as NoiseSource,
)
from sottovoce.privacy.mechanisms.pure_sum import (
    PureSum as PureSum,
    calibrate_pure_sum as calibrate_pure_sum,
)
from sottovoce.privacy.mechanisms.unproved_point import (
    UnprovedPoint as UnprovedPoint,
)
from sottovoce.privacy.perturbation import (
    Moments as Moments,
    RecordMechanismPlugin as RecordMechanismPlugin,
    Scheme as Scheme,
    scheme as scheme,
    select_scheme as select_scheme,
    select_scheme_for_ridge as select_scheme_for_ridge,
)
from sottovoce.privacy.perturbation.plugin import (
    Words as Words,
)
from sottovoce.privacy.perturbation.scheme import (
    Values as Values,
    copy_count as copy_count,
    from_tensor as from_tensor,
    label_signs as label_signs,
    scaled as scaled,
    sums as sums,
)
from sottovoce.privacy.terms import (
    Scaling as Scaling,
    Terms as Terms,
)
from sottovoce.privacy.terms.base import (
    check_unit as check_unit,
    unit_records as unit_records,
)
from sottovoce.privacy.terms.gradients import (
    GradientTerms as GradientTerms,
)
from sottovoce.privacy.terms.guarantee import (
    REFUTED as REFUTED,
    THREAT_MODEL as THREAT_MODEL,
    no_guarantee as no_guarantee,
)
from sottovoce.privacy.terms.records import (
    RecordTerms as RecordTerms,
    named_scheme as named_scheme,
)
from sottovoce.privacy.terms.rows import (
    RowSumTerms as RowSumTerms,
)
from sottovoce.privacy.vault.numbering import (
    enrol_records as enrol_records,
)
from sottovoce.privacy.vault.programs.program import (
    Plan as Plan,
)
from sottovoce.privacy.vault.record_selection import (
    select_units as select_units,
)
from sottovoce.privacy.vault.vault import (
    VaultContext as VaultContext,
)
from sottovoce.suggestions import (
    invalid_key as invalid_key,
    suggest_name as suggest_name,
)
