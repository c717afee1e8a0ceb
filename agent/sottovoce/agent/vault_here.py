"""The vault of a configuration, in this process: an agent's own, or the one that `sottovoce vault run` serves.

Nothing here, nor below, imports a network: the separate vault's process is built from it.
"""

from sottovoce.algorithms.family import Family, records_of
from sottovoce.config import AgentConfig, DataSection
from sottovoce.data import Records, checked, load, uniform_bounds
from sottovoce.errors import DataError
from sottovoce.vault import Ledger, OperatingSystemNoise, Vault, build

LEDGER = "ledger.db"


def vault_here(config: AgentConfig, family: Family, ledger: Ledger) -> Vault:
    """The vault over the configured records and an open ledger.

    Raises:
        SottovoceError: the records cannot be read, or the terms have no guarantee.
    """
    return build(
        records=records_here(config.data),
        kernel=family.kernel,
        terms=family.terms,
        ledger=ledger,
        noise=OperatingSystemNoise(),
    )


def records_here(data: DataSection) -> Records:
    """The configured records, as they are declared, clamped and transformed.

    Raises:
        DataError: they cannot be read, or are not what is declared.
    """
    found = load(data.source)
    raw = checked(
        found.records.features,
        found.records.labels,
        features_expected=data.features,
        classes=data.classes,
        windows=found.records.windows,
        origin=data.source,
    )
    if found.classes != data.classes:
        raise DataError(
            f"{data.source}: its classes are numbered for another count than data.classes = {data.classes}; "
            "use an npz file with a `classes` array, so that every device numbers them alike"
        )
    bounds = found.bounds
    if data.bounds is not None:
        bounds = uniform_bounds(*data.bounds, data.features, "data.bounds")
    return records_of(raw, data.transform, bounds)
