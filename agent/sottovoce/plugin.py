"""The public door for other packages: every name that a plug-in needs, in one stable module.

A plug-in imports this module and `sottovoce.testing`, and nothing else of Sottovoce. See docs/how-to/plug-ins.md.

A name's module is imported when the name is first used. Thus a vault in its own process, which loads a learner's
private half only, loads no learner, no transport and no wire code. plugin.pyi has the same names for type checkers.
"""

from importlib import import_module

_HOMES = {
    "sottovoce.algorithms.family": "build_kernel Family feature_scaling LearnerAndCodec settings_of StoredRecords",
    "sottovoce.algorithms.published": "published_terms",
    "sottovoce.algorithms.push_sum.algorithm": "noisy_sums_algorithm share_codec",
    "sottovoce.algorithms.push_sum.codec": "PushSumCodec",
    "sottovoce.algorithms.push_sum.public.machine": "PushSum PushSumState WEIGHT_ONE",
    "sottovoce.algorithms.push_sum.settings": "ClipD2pSettings Clipping",
    "sottovoce.algorithms.rounds.public": "Work",
    "sottovoce.algorithms.rounds.public.work": "Floats RoundAlgorithm",
    "sottovoce.algorithms.rounds.registration": "rounds_algorithm",
    "sottovoce.algorithms.rounds.rule": "Rule",
    "sottovoce.algorithms.rounds.settings": "RoundsSettings",
    "sottovoce.algorithms.state_codec": "ModelSizeMismatch saved_model",
    "sottovoce.algorithms.steps.public.descent": "MAX_NUMERATOR round_and_clip Schedule UNIT",
    "sottovoce.config": "AgentConfig",
    "sottovoce.data": "Declaration load prepare_records Records Table uniform_bounds width",
    "sottovoce.data.feed": "MeterSource",
    "sottovoce.data.spec": "DataKind",
    "sottovoce.data.stability": "EXTREMES",
    "sottovoce.errors": "ConfigError DataError IdentityError InternalError MessageRefused PrivacyError SottovoceError",
    "sottovoce.kernels": "Kernel Model",
    "sottovoce.kernels.binary": "Logistic",
    "sottovoce.kernels.decentralised.chain_steps": (
        "constant global_step inverse_square_root local_step project_onto_ball StepSchedule strongly_convex"
    ),
    "sottovoce.kernels.gossip_rules": "descend descents merge Slope SLOPES UPDATE_RULES UpdateRule",
    "sottovoce.kernels.least_squares": "ridge",
    "sottovoce.kernels.linear": "OneVsAll targets",
    "sottovoce.kernels.mlp": "Perceptron",
    "sottovoce.kernels.softmax": "Softmax",
    "sottovoce.learning.learners": "Ask Effect Forget Learner Message Progress Provenance PublishModel Reply Send",
    "sottovoce.learning.learners.learner": (
        "Delivered Event free_peer_indices PeersChanged Received Returned SetTimer SettlingState "
        "shape_refusal Shelve Timer"
    ),
    "sottovoce.learning.learners.machine": "Machine MachineState",
    "sottovoce.learning.learners.published_records": "Holding Perturbation PublishedRecord Shelf",
    "sottovoce.learning.registry": "Algorithm Relation",
    "sottovoce.learning.settings": "Batch BeginsWalk Clip Deadline GradientSettings LearnerSettings LongestPeriod",
    "sottovoce.net.transports": "DeliveryFailed Listener Peer Receive Transport",
    "sottovoce.net.transports.plugin": "TransportContext TransportPlugin",
    "sottovoce.net.wire.arrays": "check_model from_float32 MAX_COUNT MAX_PARAMETERS to_float32",
    "sottovoce.net.wire.plain": "PlainCodec PlainStateCodec",
    "sottovoce.net.wire.published": "records_from_wire records_to_wire",
    "sottovoce.plugins": "installed_plugins MECHANISM",
    "sottovoce.privacy.accounting.units": "EVERY Units",
    "sottovoce.privacy.api": "Answer PrivacyStatement Query Refused Release Status",
    "sottovoce.privacy.ledger.budget": "Budget",
    "sottovoce.privacy.ledger.ledger": "Ledger",
    "sottovoce.privacy.mechanisms.bounded_point": "BoundedPoint calibrate_point",
    "sottovoce.privacy.mechanisms.clipped_sum": "Batches",
    "sottovoce.privacy.mechanisms.noise": "NoiseSource",
    "sottovoce.privacy.mechanisms.pure_sum": "calibrate_pure_sum PureSum",
    "sottovoce.privacy.mechanisms.unproved_point": "UnprovedPoint",
    "sottovoce.privacy.perturbation": (
        "Moments RecordMechanismPlugin Scheme scheme select_scheme select_scheme_for_ridge"
    ),
    "sottovoce.privacy.perturbation.plugin": "Words",
    "sottovoce.privacy.perturbation.scheme": "copy_count from_tensor label_signs scaled sums Values",
    "sottovoce.privacy.terms": "Scaling Terms",
    "sottovoce.privacy.terms.base": "check_unit unit_records",
    "sottovoce.privacy.terms.gradients": "GradientTerms",
    "sottovoce.privacy.terms.guarantee": "no_guarantee REFUTED THREAT_MODEL",
    "sottovoce.privacy.terms.records": "named_scheme RecordTerms",
    "sottovoce.privacy.terms.rows": "RowSumTerms",
    "sottovoce.privacy.vault.numbering": "enrol_records",
    "sottovoce.privacy.vault.programs.program": "Plan",
    "sottovoce.privacy.vault.record_selection": "select_units",
    "sottovoce.privacy.vault.vault": "VaultContext",
    "sottovoce.suggestions": "invalid_key suggest_name",
}
"""Names by the module that defines them, separated by spaces."""

_MODULES = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = tuple(sorted(_MODULES))


def __getattr__(name: str) -> object:
    """Import a public name from its module."""
    if name not in _MODULES:
        raise AttributeError(f"module 'sottovoce.plugin' has no attribute '{name}'")
    found: object = getattr(import_module(_MODULES[name]), name)
    globals()[name] = found  # the next use finds it without this function
    return found


def __dir__() -> list[str]:
    return list(__all__)
