"""Data SPECs: each is parsed completely, or refused with the nearest valid alternative."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sottovoce.data import load, parse
from sottovoce.errors import DataError


@pytest.mark.parametrize(
    "text, kind, path, options",
    [
        ("digits", "digits", None, {}),
        ("breast-cancer", "breast-cancer", None, {}),
        ("idx:/data/mnist", "idx", Path("/data/mnist"), {}),
        ("npz:records.npz#bounds=-1:1", "npz", Path("records.npz"), {"bounds": "-1:1"}),
        ("csv:C:\\a.csv#label=y", "csv", Path("C:\\a.csv"), {"label": "y"}),
        (
            "csv:/a.csv#label=-1&header=no&delimiter=;&bounds=0:5",
            "csv",
            Path("/a.csv"),
            {"label": "-1", "header": "no", "delimiter": ";", "bounds": "0:5"},
        ),
    ],
)
def test_a_spec_is_parsed(text: str, kind: str, path: Path | None, options: dict[str, str]) -> None:
    spec = parse(text)
    assert (spec.kind, spec.path, dict(spec.options)) == (kind, path, options)


def test_the_home_directory_is_expanded() -> None:
    assert parse("idx:~/mnist").path == Path.home() / "mnist"


@pytest.mark.parametrize(
    "text, problem",
    [
        ("digit", "'digit'.*'digits'"),
        ("", "''"),
        ("mnist", "'mnist'.*idx:DIRECTORY"),
        ("metres:/a.npz", "'metres'.*'meters'"),
        ("days.csv", r"csv:days\.csv#label=COLUMN"),
        ("mqtt://broker/topic", "'mqtt'"),
        ("digits:/data", "'digits'"),
        ("digits:", "'digits'"),
        ("npz", "'npz'"),
        ("idx:", "'idx'"),
        ("csv:/a.csv", "'label'.*'target'"),
        ("csv:/a.csv#lable=y", "'lable'"),
        ("csv:/a.csv#label=y&label=z", "'label'.*'csv'.*twice"),
        ("csv:/a.csv#label", "'label'.*'csv'.*value"),
        ("csv:/a.csv#label=y&", "''"),
        ("idx:/a#bounds=0:1", "'idx'.*'bounds'"),
        ("digits#x=1", "'digits'.*'x'"),
    ],
)
def test_a_malformed_spec_is_refused_with_an_example(text: str, problem: str) -> None:
    with pytest.raises(DataError, match=problem) as exc_info:
        parse(text)
    assert "example" in str(exc_info.value)


@pytest.mark.parametrize("text", ["npz:{}/no.npz", "csv:{}/no.csv#label=y", "csv:{}/no.csv.gz#label=y"])
def test_a_missing_file_is_named(text: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"\bno\."):
        load(text.format(tmp_path))


@pytest.mark.parametrize("text", ["npz:{}", "csv:{}#label=y"])
def test_a_directory_in_place_of_a_file_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=re.escape(str(tmp_path))):
        load(text.format(tmp_path))


def test_a_parsed_spec_loads_the_same_records_as_its_text(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", X=np.eye(3), y=np.arange(3))
    text = f"npz:{tmp_path}/a.npz"
    assert np.array_equal(load(parse(text)).records.features, load(text).records.features)


@pytest.mark.process
def test_the_data_package_imports_no_heavy_package() -> None:
    heavy = "{'sklearn', 'scipy', 'pandas', 'torch', 'grpc', 'pydantic', 'numpy.random'}"
    program = f"import sys, sottovoce.data; print(*({heavy} & sys.modules.keys()))"
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "\n", "")
