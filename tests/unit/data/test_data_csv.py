"""`csv:FILE`: it reads spreadsheet and archive files, and its errors never show a cell."""

import gzip
import traceback
from pathlib import Path

import numpy as np
import pytest
from sottovoce.data import DataSet, load
from sottovoce.errors import DataError

DATA = Path(__file__).parents[4] / "shared" / "data"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "table.csv"


def load_csv(table: Path, text: str, options: str) -> DataSet:
    table.write_text(text, encoding="utf-8")
    return load(f"csv:{table}#{options}")


def test_a_named_label_column_and_numeric_labels_sorted_as_numbers(table: Path) -> None:
    data = load_csv(table, "a,tariff,b\n1,10,2\n3,9,4.5\n-1e3,10.0, 6\n\n", "label=tariff")
    assert data.records.features.tolist() == [[1, 2], [3, 4.5], [-1000, 6]]
    assert data.records.labels.tolist() == [1, 0, 1]
    assert data.classes == 2
    assert data.bounds is None
    assert data.test is None
    assert data.name == "csv:table.csv"


def test_text_labels_are_sorted_as_text(table: Path) -> None:
    data = load_csv(table, "kind;x\nSKY;1\nPATH;2\n10;3\n", "label=kind&delimiter=;")
    assert data.records.labels.tolist() == [2, 1, 0]


@pytest.mark.parametrize("label, labels", [("0", [0, 1]), ("-1", [1, 0]), ("2", [1, 0]), ("-3", [0, 1])])
def test_an_index_counts_from_either_end(table: Path, label: str, labels: list[int]) -> None:
    data = load_csv(table, "1,5,9\n2,6,7\n", f"label={label}&header=no")
    assert data.records.labels.tolist() == labels
    assert data.records.features.shape == (2, 2)


def test_a_byte_order_mark_and_quotes_are_accepted(table: Path) -> None:
    data = load_csv(table, '\ufeff"y","x"\r\n"a","1"\r\n"b","2"\r\n', "label=y")
    assert data.records.features.tolist() == [[1], [2]]


def test_declared_bounds_apply_to_every_feature(table: Path) -> None:
    data = load_csv(table, "y,a,b\n0,1,2\n1,3,4\n", "label=y&bounds=-5:1e3")
    assert data.bounds is not None
    assert [side.tolist() for side in data.bounds] == [[-5, -5], [1000, 1000]]


def test_a_group_column_is_not_a_feature(table: Path) -> None:
    data = load_csv(table, "house,y,a\nelm,0,1\nash,1,3\nelm,1,5\n", "label=y&group=house")
    assert data.groups is not None
    assert data.groups.tolist() == [1, 0, 1]
    assert data.records.features.tolist() == [[1], [3], [5]]
    test = table.with_name("test.csv")
    test.write_text("oak,1,7\n")
    data = load_csv(table, "9,0,1\n10,1,3\n", "label=1&group=0&header=no&test=test.csv")
    assert data.groups is not None
    assert data.groups.tolist() == [0, 1]
    assert data.test is not None
    assert data.test.features.tolist() == [[7]]


def test_gzip_is_read_and_corruption_refused(tmp_path: Path) -> None:
    path = tmp_path / "table.csv.gz"
    full = gzip.compress(b"y,x\n0,1\n1,2\n")
    path.write_bytes(full)
    assert load(f"csv:{path}#label=y").records.features.tolist() == [[1], [2]]
    path.write_bytes(full[:-4])
    with pytest.raises(DataError, match=r"table\.csv\.gz"):
        load(f"csv:{path}#label=y")


@pytest.mark.parametrize(
    "text, options, problem",
    [
        ("", "label=y", "is empty"),
        ("\n\n", "label=y", "is empty"),
        ("y,x\n", "label=y", "classes"),
        ("y,x\n0,1\n1,SECRET\n", "label=y", "line 3.*column 2"),
        ("y,x\n0,1\n1,\n", "label=y", "line 3.*column 2"),
        ("y,x\n0,nan\n", "label=y", "line 2.*column 2"),
        ("y,x\n0,-inf\n", "label=y", "line 2.*column 2"),
        ("y,x\n0,1\n,SECRET\n", "label=y", "line 3.*label"),
        ("y,x,g\n0,1,1\n1,2,\n", "label=y&group=g", "line 3.*group"),
        ("y,x,g\n0,1,1\n", "label=y&group=gg", "'gg'.*group=g"),
        ("0,1,1\n", "label=0&group=3&header=no", "group=3"),
        ("y,g\n0,1\n", "label=y&group=g", "feature"),
        ("y,x\n0,1\n1,2,SECRET\n", "label=y", r"line 3.*3 columns.*\b2\b"),
        ("y,x\n0,1\nSECRET\n", "label=y", r"line 3.*1 columns.*\b2\b"),
        ("y,x\n0,1\n0,2\n", "label=y", "classes"),
        ('y,x\n0,"SECRET\n', "label=y", "CSV"),
        ('y,x\n0,"SECRET"1\n', "label=y", "line 2.*CSV"),
        ("y,meter,x\n0,1,2\n", "label=metre", "'metre'.*label=meter"),
        ("y,y,x\n0,1,2\n", "label=y", "'y'"),
        ("x;y\n1;2\n", "label=y", "delimiter"),
        ("SECRET,1.5\nb,2\n", "label=SECRETS", "'SECRETS'.*line 1.*&header=no"),
        ("SECRET;1,5;0\nb;2,5;1\n", "label=x", "line 1.*&header=no"),
        ("SECRET;a,b\n", "label=x", "name.*delimiter"),
        ("x,y\n1,0\n", "label=-1", "'-1'"),
        ("1,2\n3,4\n", "label=y&header=no", r"label=y.*\b0\b.*\b1\b"),
        ("1,2\n3,4\n", "label=2&header=no", "label=2"),
        ("1,2\n3,4\n", "label=-3&header=no", "label=-3"),
        ("x,y\n3,4\n", "label=1&header=no", "line 1.*column 1.*header=no"),
        ("y,x\n0,1\n1,2\n", "label=y&header=maybe", "header=maybe"),
        ("y,x\n0,1\n1,2\n", "label=y&delimiter=ab", "delimiter.*character"),
        ("y,x\n0,1\n1,2\n", "label=y&bounds=5", "bounds=5.*LOW.*HIGH"),
        ("y,x\n0,1\n1,2\n", "label=y&bounds=5:x", "bounds=5:x.*LOW.*HIGH"),
        ("y,x\n0,1\n1,2\n", "label=y&bounds=5:1", "bounds"),
        ("y,x\n0,1\n1,2\n", "label=y&bounds=0:inf", "bounds"),
        ("y,x\n0,1\n1,2\n", "label=y&bounds=0:nan", "bounds"),
        ("y,x\n0,1\n1,2\n", "label=y&bounds=-1e308:1e308", "bounds"),
    ],
)
def test_an_invalid_table_is_refused_without_showing_a_cell(table: Path, text: str, options: str, problem: str) -> None:
    with pytest.raises(DataError, match=problem) as exc_info:
        load_csv(table, text, options)
    assert str(table) in str(exc_info.value)
    message = "".join(traceback.format_exception(exc_info.value)).replace("SECRETS", "")
    assert "SECRET" not in message


def test_non_utf8_text_is_refused(table: Path) -> None:
    table.write_bytes(b"y,x\n\xe9t\xe9,1\nhiver,2\n")
    with pytest.raises(DataError, match="UTF-8"):
        load(f"csv:{table}#label=y")


@pytest.mark.skipif(not DATA.is_dir(), reason=f"the shared data sets are not in {DATA}")
def test_spambase_has_its_published_counts() -> None:
    data = load(f"csv:{DATA}/spambase/spambase.data#label=-1&header=no&bounds=0:20000")
    assert data.records.features.shape == (4601, 57)
    assert np.bincount(data.records.labels).tolist() == [2788, 1813]


@pytest.mark.skipif(not DATA.is_dir(), reason=f"the shared data sets are not in {DATA}")
def test_image_segmentation_has_thirty_records_per_class() -> None:
    data = load(f"csv:{DATA}/image_segmentation/segmentation.data#label=0&header=no")
    assert data.records.features.shape == (210, 19)
    assert np.bincount(data.records.labels).tolist() == [30] * 7


def test_a_test_file_is_the_official_split_with_the_same_numbering(table: Path) -> None:
    (table.parent / "later.csv").write_text("kind,x\nROCK,5\nSKY,6\n")
    data = load_csv(table, "kind,x\nSKY,1\nPATH,2\n", "label=kind&test=later.csv&bounds=0:9")
    assert data.test is not None
    assert data.classes == 3
    assert data.records.labels.tolist() == [2, 0]
    assert data.test.labels.tolist() == [1, 2]
    assert data.test.features.tolist() == [[5], [6]]
    with pytest.raises(DataError, match=r"none\.csv"):
        load_csv(table, "kind,x\nSKY,1\nPATH,2\n", "label=kind&test=none.csv")
    (table.parent / "later.csv").write_text("kind,x,y\nROCK,5,6\n")
    with pytest.raises(DataError, match=r"later\.csv.*columns"):
        load_csv(table, "kind,x\nSKY,1\nPATH,2\n", "label=kind&test=later.csv")


def test_bounds_can_be_declared_for_each_feature(table: Path) -> None:
    data = load_csv(table, "y,a,b,c\n0,1,2,3\n1,3,4,5\n", "label=y&bounds=0:1*2,-5:1e3")
    assert data.bounds is not None
    assert [side.tolist() for side in data.bounds] == [[0, 0, -5], [1, 1, 1000]]


@pytest.mark.parametrize(
    "bounds", ["0:1*2", "0:1,2:3", "0:1*4", "0:1*9999999", "0:1,,2:3", "0:1*0", "1:0,0:1,0:1", "a:b,0:1"]
)
def test_bounds_for_another_number_of_features_are_refused(table: Path, bounds: str) -> None:
    with pytest.raises(DataError, match="bounds"):
        load_csv(table, "y,a,b,c\n0,1,2,3\n1,3,4,5\n", f"label=y&bounds={bounds}")


@pytest.mark.skipif(not DATA.is_dir(), reason="needs the shared data sets")
def test_the_paper_s_two_data_sets_are_read() -> None:
    spambase = load(f"csv:{DATA / 'spambase' / 'spambase.data'}#header=no&label=-1")
    assert spambase.records.features.shape == (4601, 57)
    assert np.bincount(spambase.records.labels).tolist() == [2788, 1813]
    source = DATA / "image_segmentation" / "segmentation.data"
    segmentation = load(f"csv:{source}#header=no&label=0&test=segmentation.test")
    assert segmentation.test is not None
    assert segmentation.records.features.shape == (210, 19)
    assert np.bincount(segmentation.records.labels).tolist() == [30] * 7
    assert np.bincount(segmentation.test.labels).tolist() == [300] * 7
