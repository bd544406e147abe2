"""Libraries that know a URL by other marks than fsspec does: what they write and read is in the store."""

import os

import fsspec
import numpy
import pytest


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """The working directory, in which nothing must be left."""
    folder = tmp_path / "working-directory"
    folder.mkdir()
    monkeypatch.chdir(folder)
    yield folder
    assert os.listdir(folder) == []


@pytest.mark.filterwarnings("ignore:.*onsolidated metadata")
def test_xarray(place, elsewhere):
    xarray = pytest.importorskip("xarray")
    data = xarray.Dataset({"metres": ("x", numpy.arange(4.0))})
    url = place.fs().unstrip_protocol(f"{place.folder()}/levels.zarr")
    data.to_zarr(url, mode="w", storage_options=place.options)
    assert place.fs(skip_instance_cache=True).find(url)
    assert xarray.open_zarr(url, storage_options=place.options).identical(data)


def test_polars(place, elsewhere):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"a": range(100)})
    fs, path = place.fs(), f"{place.folder()}/a.parquet"
    with fs.open(path, "wb") as file:
        frame.write_parquet(file)
    with fs.open(path) as file:
        assert polars.read_parquet(file).equals(frame)


@pytest.fixture
def datasets(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "huggingface"))
    return pytest.importorskip("datasets")


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("streaming", [False, True])
def test_datasets(datasets, on_minio, streaming, tmp_path):
    fs, folder = on_minio.fs(), on_minio.folder()
    for part in range(3):
        fs.pipe(
            f"{folder}/part-{part}.csv", b"number\n" + b"".join(b"%d\n" % n for n in range(part * 10, part * 10 + 10))
        )
    read = datasets.load_dataset(
        "csv",
        data_files=[fs.unstrip_protocol(f"{folder}/part-*.csv")],
        storage_options=dict(on_minio.options),
        streaming=streaming,
        split="train",
        cache_dir=str(tmp_path / "cache"),
    )
    assert sorted(row["number"] for row in read) == list(range(30))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::FutureWarning")
def test_datasets_are_saved(datasets, on_minio):
    fs, folder = on_minio.fs(), on_minio.folder()
    data = datasets.Dataset.from_dict({"number": list(range(100))})
    url = fs.unstrip_protocol(f"{folder}/saved")
    data.save_to_disk(url, storage_options=dict(on_minio.options))
    assert fs.find(f"{folder}/saved")
    assert datasets.load_from_disk(url, storage_options=dict(on_minio.options))["number"][:] == list(range(100))


def test_universal_pathlib(place):
    upath = pytest.importorskip("upath")
    folder = upath.UPath(place.fs().unstrip_protocol(place.folder()), **place.options)
    path = folder / "deep" / "a.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("tide")
    assert path.read_text() == "tide" and path.exists() and path.is_file() and folder.is_dir()
    assert [each.name for each in folder.rglob("*.txt")] == ["a.txt"]
    assert path.stat().st_size == 4
    with path.open("wb") as file:
        file.write(b"again")
    assert path.rename(path.with_name("b.txt")).read_bytes() == b"again"
    (folder / "deep" / "b.txt").unlink()
    assert not path.exists()


def test_pandas_knows_the_name(place):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": range(100)})
    url = place.fs().unstrip_protocol(f"{place.folder()}/a.csv.gz")
    frame.to_csv(url, index=False, storage_options=place.options or None)
    assert fsspec.filesystem(place.protocol, **place.options).exists(url)
    assert pandas.read_csv(url, storage_options=place.options or None).equals(frame)
