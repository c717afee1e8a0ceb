"""Every mistake in a configuration is reported with file, line, key and remedy."""

import re
from pathlib import Path

import pytest
from sottovoce.config import config_from_tables, load
from sottovoce.errors import ConfigError, ExitCode

from tests.support.command import run_here

CORRECT = """\
# a meter
[agent]
state = "meter-1"

[data]
source = "npz:records.npz"
features = 4
classes = 3
expected_records = 60

[learner]
period = 0.05

[privacy]
epsilon = 2.0

[transport]
listen = "127.0.0.1:7400"

[[transport.peers]]
id = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
address = "10.0.0.2:7400"

[[transport.peers]]
id = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
address = "[fe80::1]:7400"
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent.toml"


def problem(path: Path, text: str | bytes) -> str:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError) as exc_info:
        load(path)
    return str(exc_info.value)


def test_a_correct_file_is_read_and_its_state_is_next_to_it(path: Path) -> None:
    path.write_text(CORRECT)
    config = load(path)
    assert config.agent.state == path.parent / "meter-1"
    assert (config.privacy.epsilon, config.privacy.delta, config.learner.name) == (2.0, 1e-5, "clipd2p")
    assert [peer.address for peer in config.transport.peers] == ["10.0.0.2:7400", "[fe80::1]:7400"]


@pytest.mark.parametrize(
    "source, found",
    [
        ("npz:records.npz", "npz:{here}/records.npz"),
        ("csv:a/b.csv#label=y&delimiter=/", "csv:{here}/a/b.csv#label=y&delimiter=/"),
        ("idx:/data/mnist", "idx:/data/mnist"),
        ("npz:~/records.npz", "npz:{home}/records.npz"),
        ("digits", "digits"),
        ("npz:", "npz:"),
    ],
)
def test_a_data_spec_s_path_is_relative_to_the_file(path: Path, source: str, found: str) -> None:
    path.write_text(CORRECT.replace("npz:records.npz", source))
    assert load(path).data.source == found.format(here=path.parent, home=Path.home())


# old line, new line: line, key, part of the message
MISTAKES = {
    "misspelt key": ("epsilon = 2.0", "epsilom = 2.0", 15, "privacy.epsilom", "unknown key; did you mean `epsilon`?"),
    "unknown key": ("epsilon = 2.0", "colour = 1", 15, "privacy.colour", "unknown key; known keys here: epsilon"),
    "misspelt table": ("[learner]", "[lerner]", 11, "lerner", "unknown key; did you mean `learner`?"),
    "unknown table": ("[learner]", "[x]", 11, "x", "unknown key; known keys here: agent, data, learner"),
    "key above the tables": ("# a meter", "stat = 1", 1, "stat", "unknown key; known keys here"),
    "missing key": ("features = 4", "", 5, "data.features", "missing; add it (columns in the feature"),
    "text for a number": ("epsilon = 2.0", 'epsilon = "2"', 15, "privacy.epsilon", "Expected `float`, got `str`"),
    "number for text": ('state = "meter-1"', "state = 3", 3, "agent.state", "expected a path, got int"),
    "fraction for a count": ("features = 4", "features = 4.5", 7, "data.features", "Expected `int`, got `float`"),
    "truth for a number": ("period = 0.05", "period = true", 12, "learner.period", "Expected `float`, got `bool`"),
    "value for a table": ("[privacy]", "[[privacy]]", 14, "privacy", "Expected `object`, got `array`"),
    "negative": ("epsilon = 2.0", "epsilon = -1", 15, "privacy.epsilon", "> 0.0 (total ε, at most 500)"),
    "zero": ("epsilon = 2.0", "epsilon = 0", 15, "privacy.epsilon", "Expected `float` > 0.0"),
    "nan": ("epsilon = 2.0", "epsilon = nan", 15, "privacy.epsilon", "Expected `float` > 0.0"),
    "infinite": ("epsilon = 2.0", "epsilon = inf", 15, "privacy.epsilon", "set a finite ε, for example 2.0"),
    "infinite period": ("period = 0.05", "period = inf", 12, "learner.period", "Expected `float` <= 86400.0"),
    "delta of one": ("epsilon = 2.0", "delta = 1", 15, "privacy.delta", "Expected `float` < 1.0"),
    "no feature": ("features = 4", "features = 0", 7, "data.features", "Expected `int` >= 1"),
    "no class": ("classes = 3", "classes = 0", 8, "data.classes", "Expected `int` >= 1"),
    "unknown learner": ("period = 0.05", 'name = "sgd"', 12, "learner.name", '"clipd2p", "push-sum"'),
    "unknown unit": ("epsilon = 2.0", 'unit = "person"', 15, "privacy.unit", 'one of "record"'),
    "port too large": (":7400", ":99999", 18, "transport.listen", "the port must be between 1 and 65535"),
    "port zero": ('"10.0.0.2:7400"', '"10.0.0.2:0"', 22, "transport.peers.0.address", "between 1 and 65535"),
    "no port": ('"127.0.0.1:7400"', '"localhost"', 18, "transport.listen", "host:port, for example 10.0.0.7:7400"),
    "bad node id": ('"aaaa', '"AAAA', 21, "transport.peers.0.id", "as printed by `sottovoce fleet show`"),
    "short node id": ('"bbbb', '"bb', 25, "transport.peers.1.id", "does not have the required form"),
    "duplicate peer": ("b" * 32, "a" * 32, 25, "transport.peers.1.id", "this peer is listed twice; remove one of them"),
    "misspelt key of a peer": ("address = \"[", "addres = \"[", 26, "transport.peers.1.addres", "mean `address`?"),
    "misspelt key of a meter": (
        "# a meter", "feed.meters = [{ nam = 'a', format = 'glow' }]", 1, "feed.meters.0.nam", "mean `name`?",
    ),
    "bounds the wrong way": ("classes = 3", "classes = 3\nbounds = [1.0, 0.0]", 9, "data.bounds", "the lower first"),
    "bounds of nan": ("classes = 3", "classes = 3\nbounds = [nan, 1.0]", 9, "data.bounds", "two finite numbers"),
    "a vain epsilon": ("epsilon = 2.0", "epsilon = 1000.0", 15, "privacy.epsilon", "nothing is promised"),
    "pauses the wrong way": (":7400\"", ":7400\"\nbackoff = 400.0", 19, "transport.backoff", "longer than backoff_max"),
    "one bound": ("classes = 3", "classes = 3\nbounds = [1.0]", 9, "data.bounds", "Expected `array` of length 2"),
}  # fmt: skip


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_reported_with_file_line_key_and_remedy(path: Path, case: str) -> None:
    old, new, line, key, words = MISTAKES[case]
    text = CORRECT.replace(old, new, 1)
    assert text != CORRECT
    message = problem(path, text)
    assert message.startswith(f"{path}, line {line}: {key}: ")
    assert words in message
    assert "\n" not in message


def test_a_mistake_is_located_wherever_the_key_is_written(path: Path) -> None:
    """Dotted keys, inline tables and multi-line values have the line on which their statement begins."""
    dotted = 'data.source = "npz:x"\ndata.classes = 3\ndata.features = 4\ndata.expected_records = 1\n'
    assert problem(path, dotted + 'privacy.epsilon = -1\nagent = { state = "a" }\n').startswith(f"{path}, line 5: ")
    peers = 'agent = { state = "a" }\n[transport]\npeers = [\n  { id = "x", address = "h:1" },\n]\n'
    assert problem(path, dotted + peers).startswith(f"{path}, line 7: transport.peers.0.id: ")


def test_errors_in_several_tables_are_reported_together(path: Path) -> None:
    text = CORRECT.replace("epsilon = 2.0", "epsilon = 0").replace("period = 0.05", "perod = 1")
    first, second = problem(path, text).splitlines()
    assert first.startswith(f"{path}, line 12: learner.perod")
    assert second.startswith(f"{path}, line 15: privacy.epsilon")


@pytest.mark.parametrize(
    "text, words",
    [
        (CORRECT.replace("epsilon = 2.0", "epsilon = = 2"), "line 15, column"),
        (CORRECT.replace("epsilon = 2.0", "epsilon = 2\nepsilon = 3"), "line 16"),
        (CORRECT.replace("[privacy]", "[privacy"), "line 14"),
        (b"\xff\xfe" + CORRECT.encode(), "UTF-8"),
        (CORRECT.replace("meter-1", "m\xe9ter").encode("latin-1"), "UTF-8"),
        ("", "agent: missing"),
        ("\0", "TOML"),
    ],
)
def test_a_file_that_is_not_a_configuration(path: Path, text: str | bytes, words: str) -> None:
    message = problem(path, text)
    assert message.startswith(f"{path}")
    assert words in message


@pytest.mark.parametrize("there", [False, True])
def test_an_unreadable_file(path: Path, there: bool) -> None:
    if there:
        path.mkdir()
    with pytest.raises(ConfigError, match=re.escape(f"{path}: cannot be read")):
        load(path)


def test_tables_without_lines_are_reported_by_their_origin() -> None:
    with pytest.raises(ConfigError, match=r"--set.*privacy\.epsilon"):
        config_from_tables({"privacy": {"epsilon": -1}}, "--set")


def test_no_value_from_the_file_is_repeated(path: Path) -> None:
    """Messages are logged, and a value written into the wrong key might be a secret."""
    assert "hunter2" not in problem(path, CORRECT.replace("epsilon = 2.0", 'epsilon = "hunter2"'))
    assert "hunter2" not in problem(path, CORRECT.replace('"127.0.0.1:7400"', '"hunter2"'))


@pytest.mark.parametrize(
    "command", [("config", "check"), ("agent", "run", "--config"), ("agent", "status", "--config")]
)
def test_every_command_that_reads_a_configuration_exits_with_its_code(path: Path, command: tuple[str, ...]) -> None:
    message = problem(path, CORRECT.replace("epsilon = 2.0", "epsilom = 2.0"))
    completed = run_here(*command, path)
    assert (completed.code, completed.out) == (ExitCode.CONFIGURATION, "")
    assert completed.err == f"sottovoce: {message}\n"


@pytest.mark.parametrize(
    "text, what",
    [
        (
            CORRECT.replace("epsilon = 2.0", 'epsilon = 2.0\nunit = "window"'),
            "data.windows: missing",
        ),
        (CORRECT.replace("features = 4", "features = 4\nwindows = [5, 4]"), "data.windows: "),
        (CORRECT.replace("features = 4", "features = 4\nwindows = [2026-02-01, 2026-01-01]"), "dates"),
        (
            CORRECT.replace("features = 4", 'features = 4\nwindows = ["2026-02-30", 3]'),
            "data.windows.0: ",
        ),
        (CORRECT.replace("features = 4", "features = 4\nwindows = [-1, 4]"), "data.windows: "),
        pytest.param(
            CORRECT.replace("epsilon = 2.0", 'epsilon = 2.0\nunit = "device"').replace(
                "[learner]", '[learner]\nname = "golf"'
            ),
            "privacy.unit: learner golf",
            marks=pytest.mark.papers,
        ),
        (CORRECT.replace("epsilon = 2.0", 'epsilon = 2.0\nunit = "house"'), "privacy.unit"),
    ],
)
def test_an_unbounded_unit_is_refused(path: Path, text: str, what: str) -> None:
    assert what in problem(path, text)


@pytest.mark.parametrize(
    "learner, transform, what",
    [
        (
            "",
            "none",
            "learner.model: data.classes = 1",
        ),
        (
            'model = "ridge"',
            "centred-unit",
            "data.transform: data.classes = 1",
        ),
        pytest.param(
            'name = "golf"',
            "none",
            "learner.name: data.classes = 1",
            marks=pytest.mark.papers,
        ),
    ],
)
def test_a_regression_needs_a_regression_learner(path: Path, learner: str, transform: str, what: str) -> None:
    text = CORRECT.replace("classes = 3", f'classes = 1\ntransform = "{transform}"')
    assert what in problem(path, text.replace("[learner]", f"[learner]\n{learner}"))


def test_a_supported_regression_is_accepted(path: Path) -> None:
    text = CORRECT.replace("classes = 3", 'classes = 1\ntransform = "none"')
    path.write_text(text.replace("[learner]", '[learner]\nmodel = "ridge"'))
    assert load(path).data.classes == 1
