"""A one-shot service that creates a fleet, its broker directory and, for each device, a place with a data share."""

from pathlib import Path

import tomlkit
from sottovoce.fleet.invitation import Seeds
from sottovoce_operator.fleet import create_fleet
from sottovoce_operator.fleet.bundles import new_bundle, write_bundle
from sottovoce_operator.fleet.mosquitto import write_broker

from sottovoce_lab.testbed.agent_files import save_records, to_tables
from sottovoce_lab.testbed.containers.places import Place, complete_place_count, mark_ready, places
from sottovoce_lab.testbed.containers.settings import ContainerSettings
from sottovoce_lab.testbed.plan import Plan, plan

BROKER = "broker"
BROKER_HOME = Path("/etc/mosquitto/sottovoce")
BROKER_PORT = 8883
DEVICE_PORT = 7400
METRICS_PORT = 9464
FLEET = "compose"


def prepare(
    settings: ContainerSettings,
    authority: Path,
    broker: Path,
    root: Path,
    *,
    host: str = BROKER,
    port: int = BROKER_PORT,
    home: Path | None = BROKER_HOME,
) -> int:
    """Create the fleet, the broker directory and all places, unless the places are already complete.

    Args:
        settings: the fleet's settings.
        authority: the directory for the fleet key, which no agent can read.
        broker: the directory for the broker container's settings.
        root: the root directory of the places.
        host: the host name at which devices reach the broker.
        port: the port that the broker listens on.
        home: the path of the broker directory inside its container; None for the path that this process uses.

    Returns:
        The number of places.
    """
    if (count := complete_place_count(root)) is not None:
        return count
    planned = plan(settings.options)
    fleet = create_fleet(authority / "fleet", FLEET)
    write_broker(fleet, broker / "sottovoce", [host], port=port, home=home)
    for place in places(root, settings.options.agents):
        place.directory.mkdir(mode=0o700)
        write_bundle(place.bundle, new_bundle(fleet, Seeds()))
        save_records(place.records, planned.raw[place.index], planned)
        place.template.write_text(tomlkit.dumps(_configuration(settings, planned, place, f"mqtts://{host}:{port}")))
    mark_ready(root, settings.options.agents)
    return settings.options.agents


def _configuration(settings: ContainerSettings, planned: Plan, place: Place, broker: str) -> dict[str, object]:
    """Return one device's configuration, in which the device listens on every address of its container."""
    options = settings.options
    period = options.period
    config = options.configuration(
        agent={"state": str(place.state)},
        data=planned.data_table(f"npz:{place.records}", str(place.records)),
        learner=planned.learner_keys(place.index),
        transport={
            "use": list(settings.use),
            "listen": f"0.0.0.0:{DEVICE_PORT}",
            "announce": f"{BROKER}:{DEVICE_PORT}",  # placeholder until the container has its own address
            "mqtt": {"url": broker},
            "timeout": min(10.0, max(2.0, 4 * period)),
            "backoff": min(1.0, max(0.05, period / 2)),
            "backoff_max": min(30.0, max(1.0, 4 * period)),
        },
        observe={"metrics": f"0.0.0.0:{METRICS_PORT}", "allow_remote": True} if settings.metrics else {},
    )
    return to_tables(config)
