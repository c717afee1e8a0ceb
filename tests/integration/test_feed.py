"""`sottovoce feed` with a real Mosquitto: a home's messages become windows, whatever happens to the broker."""

import base64
import datetime
import hashlib
import ipaddress
import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from sottovoce.config import load
from sottovoce.data import load as load_data
from sottovoce.data.feed import Window, read_windows
from sottovoce.data.forecast import FEATURES, LAGS
from sottovoce.node.faults import Fault
from sottovoce_home.meters import MAX_PAYLOAD_BYTES
from sottovoce_home.store import WindowStore

from tests.support.home import GLOW, Bystander, FeedProcess, StandIn, glow, write_home_config
from tests.support.mosquitto import Broker
from tests.support.processes import sottovoce
from tests.support.waiting import until

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


def replay(bystander: Bystander, begin: int, end: int) -> None:
    """Publish readings from a display that counts 10 Wh each minute, and one more that confirms the last."""
    for minute in range(begin, end + 2):
        bystander.publish(GLOW, glow(minute, 4595.0 + 0.01 * minute))


@pytest.mark.smoke
@pytest.mark.parametrize("version", ["5", "3.1.1"])
def test_readings_become_windows_and_nothing_else_is_stored(broker: Broker, tmp_path: Path, version: str) -> None:
    config = write_home_config(tmp_path, broker.url, f'version = "{version}"')
    begun = datetime.datetime.now(datetime.UTC).isoformat(timespec="minutes")
    with Bystander(broker) as bystander, FeedProcess(config) as feed:
        feed.wait_for_log("ready broker=")
        replay(bystander, 0, 30)
        bystander.publish(GLOW, "{")
        until(lambda: feed.window_count() == 30, f"30 windows; it said:\n{feed.log()}")
        assert feed.end() == 0
        output = feed.show()
        heard = output.pop("heard")["house"]
        assert output == {
            "seconds": 60,
            "meters": {"house": {"windows": 30, "first": "2013-01-01T00:00+00:00", "last": "2013-01-01T00:30+00:00"}},
            "refused": {"house": {"malformed": 1}},
        }
        assert begun <= heard.pop("counted") <= heard.pop("came")
        assert heard == {"new_counts": 0, "refused": "malformed"}
    assert read_windows(tmp_path / "windows.db").wh.tolist() == [[10] * 30]
    stored = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file() and file.suffix != ".toml")
    for secret in (b"4595", b"1900009999999", b"Octopus", b"C8C9A3000000"):
        assert secret not in stored, "disk and log contain neither readings nor their owner"


def test_the_feed_waits_for_a_killed_broker_and_the_gap_is_missing(tmp_path: Path) -> None:
    with Broker(tmp_path / "broker") as own, FeedProcess(write_home_config(tmp_path, own.url)) as feed:
        feed.wait_for_log("ready broker=")
        with Bystander(own) as bystander:
            replay(bystander, 0, 5)
            until(lambda: feed.window_count() == 5, "five windows are stored")
        own.kill()
        feed.wait_for_log("waiting-for-broker")
        own.start()
        feed.wait_for_log("ready broker=", times=2)
        with Bystander(own) as bystander:
            replay(bystander, 8, 10)
            until(lambda: feed.window_count() == 8, "the sixth window, which is confirmed now, and two more are stored")
        assert feed.end() == 0
    assert read_windows(tmp_path / "windows.db").wh.tolist() == [[10] * 6 + [-1] * 2 + [10] * 2]


def test_the_feed_waits_for_a_broker_that_has_not_started(tmp_path: Path) -> None:
    own = Broker(tmp_path / "broker")
    with FeedProcess(write_home_config(tmp_path, own.url)) as feed:
        feed.wait_for_log("waiting-for-broker")
        with own:
            feed.wait_for_log("ready broker=")
            assert feed.end() == 0


def test_ctrl_c_ends_the_wait_for_the_broker(tmp_path: Path) -> None:
    with FeedProcess(write_home_config(tmp_path, "mqtt://127.0.0.1:1")) as feed:
        feed.wait_for_log("waiting-for-broker")
        assert feed.end(signal.SIGINT) == 130


def test_an_oversized_message_has_no_effect(broker: Broker, tmp_path: Path) -> None:
    with Bystander(broker) as bystander, FeedProcess(write_home_config(tmp_path, broker.url)) as feed:
        feed.wait_for_log("ready broker=")
        replay(bystander, 0, 0)
        bystander.publish(GLOW, b"1" * (MAX_PAYLOAD_BYTES + 10_000))
        bystander.publish(GLOW, b"1" * (MAX_PAYLOAD_BYTES + 1))
        replay(bystander, 2, 3)
        until(lambda: feed.window_count() == 3, "three windows are stored")
        assert feed.end() == 0
        assert feed.show()["refused"] == {"house": {"too-large": 1}}, "the broker did not forward the larger one"


def test_replayed_half_hourly_readings_become_records(broker: Broker, tmp_path: Path) -> None:
    path = write_home_config(tmp_path, broker.url)
    path.write_text(path.read_text().replace("window = 60", "window = 1800"))
    with Bystander(broker) as bystander, FeedProcess(path) as feed:
        feed.wait_for_log("ready broker=")
        for half_hour in range(47 + 1):
            bystander.publish(GLOW, glow(30 * half_hour, round(4595.0 + 0.1 * half_hour, 3)))
        bystander.publish(GLOW, glow(30 * 47 + 1, 4599.71))
        until(lambda: feed.window_count() == 47, "a day without its last half hour")
        assert feed.end() == 0
    assert read_windows(tmp_path / "windows.db").wh.tolist() == [[100] * 47]
    records = load_data(load(path).data.source).records
    assert records.features.shape == (47 - LAGS, FEATURES)
    assert records.windows is not None
    assert set(records.windows.tolist()) == {15_706}, "its window is the day: 1 January 2013"


def test_a_store_has_only_one_feed(broker: Broker, tmp_path: Path) -> None:
    config = write_home_config(tmp_path, broker.url)
    with FeedProcess(config) as feed:
        feed.wait_for_log("ready broker=")
        second = sottovoce("feed", "run", "--config", config)
        assert second.returncode == 4
        assert "stop it first" in second.stderr
        assert feed.end() == 0


class TestTrust:
    """A broker with TLS and passwords."""

    @pytest.fixture
    def secured(self, tmp_path: Path) -> Iterator[Broker]:
        certificate, key = self_signed(tmp_path)
        salt = b"twelve bytes"
        digest = hashlib.pbkdf2_hmac("sha512", b"hush", salt, 101)
        encoded = [base64.b64encode(part).decode() for part in (salt, digest)]
        (tmp_path / "users").write_text(f"feed:$7$101${encoded[0]}${encoded[1]}\n")
        lines = [
            "listener {port} 127.0.0.1",
            f"certfile {certificate}",
            f"keyfile {key}",
            "allow_anonymous false",
            f"password_file {tmp_path / 'users'}",
        ]
        with Broker(tmp_path / "broker", config_lines=lines) as running:
            yield running

    def config(self, directory: Path, broker: Broker, password: str, ca: str = 'ca = "broker.pem"') -> Path:
        (directory / "password").write_text(password)
        (directory / "password").chmod(0o600)
        feed = f'username = "feed"\npassword_file = "password"\n{ca}'
        return write_home_config(directory, broker.url.replace("mqtt:", "mqtts:"), feed)

    def test_the_feed_listens_with_certificate_and_password(self, secured: Broker, tmp_path: Path) -> None:
        with FeedProcess(self.config(tmp_path, secured, "hush")) as feed:
            feed.wait_for_log("ready broker=")
            assert feed.end() == 0

    def test_a_wrong_password_ends_the_feed(self, secured: Broker, tmp_path: Path) -> None:
        completed = sottovoce("feed", "run", "--config", self.config(tmp_path, secured, "loud"))
        assert completed.returncode == 7
        assert "password" in completed.stderr
        assert "loud" not in completed.stderr

    def test_an_unverified_broker_never_receives_the_password(self, secured: Broker, tmp_path: Path) -> None:
        with FeedProcess(self.config(tmp_path, secured, "hush", ca="")) as feed:
            feed.wait_for_log("waiting-for-broker")
            assert "certificate verify failed" in feed.log()
            assert feed.end() == 0
        assert "ready" not in feed.log()


class TestHomeAssistant:
    PANEL = "[feed.home_assistant]\nenabled = true\nperiod = 1\n"

    def test_home_assistant_shows_the_agent_and_a_prediction(self, broker: Broker, tmp_path: Path) -> None:
        now = int(time.time()) // 1800
        store = WindowStore(tmp_path / "windows.db", 1800, 400)
        # the half hour may change during the test
        store.write([Window("house", now - LAGS + n, 500) for n in range(LAGS + 2)], {})
        identifier = store.identifier
        store.close()
        meter = '[[feed.meters]]\nname = "house"\nformat = "dsmr-reader"\n'
        config = write_home_config(tmp_path, broker.url, "", self.PANEL + meter)
        text = config.read_text().replace("classes = 2", 'classes = 1\ntransform = "none"')
        config.write_text(text.replace("window = 60\n", "") + '[learner]\nmodel = "ridge"\n')
        available, state = f"sottovoce/home/{identifier}/available", f"sottovoce/home/{identifier}/state"
        found = f"homeassistant/device/sottovoce_{identifier}/config"
        with Bystander(broker) as bystander:
            with StandIn(tmp_path / "state", FEATURES - 1) as agent, FeedProcess(config) as feed:
                until(lambda: bystander.last(state), f"a state; it said:\n{feed.log()}")
                reported = json.loads(bystander.last(state) or b"")
                assert reported == {
                    "state": "learning",
                    "resting_until": None,
                    "needs_a_person": "OFF",
                    "trouble": "none",
                    "peers": 3,
                    "epsilon_left": 1.5,
                    "budget_lasts_until": None,
                    "last_exchange": None,
                    "certificate_expires": "2027-01-01T00:00:00+00:00",
                    "prediction": 500.0,
                }, "a zero model predicts persistence"
                assert bystander.last(available) == b"online"
                agent.received += 1
                until(lambda: json.loads(bystander.last(state) or b"")["last_exchange"], "it has seen an exchange")

                agent.fault = Fault("privacy", "ledger.db: damaged; put the copy back", needs_a_person=True)
                until(lambda: json.loads(bystander.last(state) or b"")["needs_a_person"] == "ON", "it needs a person")
                assert json.loads(bystander.last(state) or b"")["trouble"] == agent.fault.summary
                agent.fault = None

                announced = sum(topic == found for topic, _, _ in bystander.heard)
                bystander.publish("homeassistant/status", "online")
                until(
                    lambda: sum(topic == found for topic, _, _ in bystander.heard) > announced,
                    "Home Assistant has restarted and is notified again",
                )
                assert feed.end() == 0
            until(lambda: bystander.last(available) == b"offline", "it announces that it leaves")
        with Bystander(broker) as late:
            until(lambda: late.last(found) and late.last(available), "both are retained")
            assert json.loads(late.last(found) or b"")["state_topic"] == state
            assert late.last(state) is None, "a state is not retained"

    def test_the_forecast_needs_no_agent_and_is_retained_until_it_is_turned_off(
        self, broker: Broker, tmp_path: Path
    ) -> None:
        now = int(time.time()) // 1800
        store = WindowStore(tmp_path / "windows.db", 1800, 400)
        store.write([Window("house", now - n, 100 + 10 * (n % 48)) for n in range(-1, 4 * 48)], {})
        topic = f"sottovoce/home/{store.identifier}/forecast"
        store.close()
        meter = '[[feed.meters]]\nname = "house"\nformat = "dsmr-reader"\n'
        config = write_home_config(tmp_path, broker.url, "", self.PANEL + "forecast = true\n" + meter)
        config.write_text(config.read_text().replace("window = 60\n", ""))
        with Bystander(broker) as bystander, FeedProcess(config) as feed:
            until(lambda: bystander.last(topic), f"a forecast; it said:\n{feed.log()}")
            assert feed.end() == 0
        with Bystander(broker) as late:
            until(lambda: late.last(topic), "it is retained")
            assert len(json.loads(late.last(topic) or b"")["load_power_forecast"]) == 48
        config.write_text(config.read_text().replace("forecast = true\n", ""))
        with Bystander(broker) as bystander, FeedProcess(config) as feed:
            feed.wait_for_log("waiting-for-agent")
            until(lambda: bystander.last(topic) == b"", "the broker forgets it")

    def test_the_broker_reports_a_killed_feed(self, broker: Broker, tmp_path: Path) -> None:
        with (
            Bystander(broker) as bystander,
            FeedProcess(write_home_config(tmp_path, broker.url, "", self.PANEL)) as feed,
        ):
            feed.wait_for_log("waiting-for-agent")
            (available,) = until(
                lambda: {topic for topic, payload, _ in bystander.heard if payload == b"online" and "home/" in topic},
                "it is available",
            )
            until(lambda: bystander.last(available.replace("available", "state")), "there is a state")
            settings = json.loads(bystander.last(available.replace("available", "state")) or b"")
            assert settings["state"] == "unreachable"
            assert set(settings.values()) == {"unreachable", None}
            feed.end(signal.SIGKILL)
            until(lambda: bystander.last(available) == b"offline", "the will")


def self_signed(directory: Path) -> tuple[Path, Path]:
    """Create a certificate and key for 127.0.0.1."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "home")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = directory / "broker.pem", directory / "broker.key"
    files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return files
