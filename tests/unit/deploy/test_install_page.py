"""Page about installing: it shows the commands that `make deb-test` runs, and a device needs five commands."""

from sottovoce.config import load

from tests.packaging.page import PAGE, walk


def test_a_device_joins_in_five_commands() -> None:
    kitchen = next(block for block in walk() if block.machine == "kitchen")
    assert len(kitchen.commands) == 5
    assert kitchen.commands[0].startswith("apt-get install")
    assert kitchen.commands[-1] == "systemctl start sottovoce-agent"


def test_every_machine_on_the_page_has_commands() -> None:
    assert {block.machine for block in walk()} == {"hub", "kitchen", "attic"}


def test_the_package_s_configuration_is_correct_and_fits_the_units() -> None:
    deploy = PAGE.parents[2] / "deploy"
    config = load(deploy / "debian" / "agent.toml")
    vault = (deploy / "systemd" / "sottovoce-vault.service").read_text()
    agent = (deploy / "systemd" / "sottovoce-agent.service").read_text()
    assert f"ConditionPathExists={config.vault.directory}/ledger.db\n" in vault
    assert f"ConditionDirectoryNotEmpty={config.agent.state}/identity\n" in agent
    assert config.vault.socket is not None
    assert f"RuntimeDirectory={config.vault.socket.parent.name}\n" in vault
    assert f"User={config.vault.agent_user}\n" in agent
