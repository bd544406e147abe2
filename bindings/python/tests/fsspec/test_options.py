"""The option names of s3fs, gcsfs and adlfs: each is mapped, refused by its name, or documented as without effect."""

import pickle
import re
from pathlib import Path

import fsspec
import pytest
from fsspec.callbacks import Callback
from fsspec.registry import _registry

import tidegate.fsspec
from tidegate.fsspec import AzureFileSystem, GCSFileSystem, LocalFileSystem, S3FileSystem

DOCS = Path(__file__).parents[2] / "docs" / "fsspec.md"

#: The parameters of the file systems of s3fs 2026.9.0, gcsfs 2026.10.1 and adlfs 2026.8.0.
S3FS = """anon endpoint_url key secret token use_ssl client_kwargs requester_pays default_block_size default_fill_cache
    default_cache_type version_aware config_kwargs s3_additional_kwargs session username password cache_regions
    max_concurrency fixed_upload_size local_expiry_check profile""".split()
GCSFS = """project access token block_size consistency cache_timeout secure_serialize check_connection requests_timeout
    requester_pays session_kwargs timeout endpoint_url default_location version_aware""".split()
ADLFS = """account_name account_key connection_string credential sas_token request_session socket_timeout blocksize
    client_id client_secret tenant_id anon location_mode default_fill_cache default_cache_type version_aware
    assume_container_exists max_concurrency timeout connection_timeout read_timeout account_host""".split()


def store(cls, **options):
    """What the store is reached with."""
    return cls(skip_instance_cache=True, **options)._settings.store


def store_of(fs):
    return fs._settings.store


def write(cls, **options):
    return cls(skip_instance_cache=True, **options)._settings.write


@pytest.mark.parametrize(
    ("given", "reached"),
    [
        ({}, {}),
        ({"key": "k", "secret": "s", "token": "t"}, {"access_key": "k", "secret_key": "s", "session_token": "t"}),
        ({"username": "k", "password": "s"}, {"access_key": "k", "secret_key": "s"}),
        ({"anon": True, "key": "k", "secret": "s"}, {"anonymous": True}),
        ({"anon": False}, {}),
        ({"endpoint_url": "http://a", "client_kwargs": {"endpoint_url": "http://b"}}, {"endpoint_url": "http://a"}),
        ({"client_kwargs": {"endpoint_url": "http://b"}, "endpoint_url": "http://a"}, {"endpoint_url": "http://a"}),
        (
            {"client_kwargs": {"region_name": "r", "aws_access_key_id": "k", "aws_secret_access_key": "s"}},
            {"region": "r", "access_key": "k", "secret_key": "s"},
        ),
        ({"client_kwargs": {"verify": "/ca.pem", "use_ssl": True}}, {"ca_bundle": "/ca.pem"}),
        ({"profile": "p"}, {"profile": "p"}),
        ({"use_ssl": False, "endpoint_url": "http://a"}, {"endpoint_url": "http://a"}),
        ({"endpoint_url": "http://a", "use_ssl": False}, {"endpoint_url": "http://a"}),
        ({"use_ssl": False, "client_kwargs": {"endpoint_url": "http://a"}}, {"endpoint_url": "http://a"}),
        ({"client_kwargs": {"endpoint_url": "http://a"}, "use_ssl": False}, {"endpoint_url": "http://a"}),
        ({"client_kwargs": {"use_ssl": False, "endpoint_url": "http://a"}}, {"endpoint_url": "http://a"}),
        ({"requester_pays": True}, {"request_payer": True}),
        ({"s3_additional_kwargs": {"RequestPayer": "requester"}}, {"request_payer": True}),
        ({"fixed_upload_size": True}, {"equal_parts": True}),
        ({"config_kwargs": {"s3": {"addressing_style": "path"}, "connect_timeout": 3}},
         {"addressing": "path", "connect_timeout": 3}),
        ({"config_kwargs": {"read_timeout": 9, "retries": {"max_attempts": 4}, "signature_version": "s3v4"}},
         {"patience": 9, "attempts": 5}),
        ({"default_block_size": 5, "cache_regions": True, "local_expiry_check": True, "default_fill_cache": False}, {}),
        ({"region": "r", "memory": 1 << 26, "addressing": "path"},
         {"region": "r", "memory": 1 << 26, "addressing": "path"}),
    ],
)  # fmt: skip
def test_s3fs(given, reached):
    assert store(S3FileSystem, **given) == reached


def test_s3fs_writes():
    additional = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "id", "StorageClass": "GLACIER_IR"}
    assert write(S3FileSystem, s3_additional_kwargs=additional, max_concurrency=3) == {
        "encryption": "kms:id",
        "storage_class": "GLACIER_IR",
        "concurrency": 3,
    }
    assert write(S3FileSystem, s3_additional_kwargs={"ServerSideEncryption": "AES256", "Tagging": "a=1&b="}) == {
        "encryption": "managed",
        "tags": {"a": "1", "b": ""},
    }
    assert write(S3FileSystem, strategy="spool", part_size=1 << 24) == {"strategy": "spool", "part_size": 1 << 24}


@pytest.mark.parametrize(
    ("given", "reached"),
    [
        ({"project": "p", "token": "google_default", "access": "full_control"}, {"project": "p"}),
        ({"token": "anon", "endpoint_url": "http://a"}, {"anonymous": True, "endpoint_url": "http://a"}),
        ({"token": "ya29.token"}, {"token": "ya29.token"}),
        ({"requester_pays": True}, {"request_payer": True}),
        ({"requester_pays": "p"}, {"request_payer": True, "project": "p"}),
        ({"consistency": "md5", "requests_timeout": 3, "check_connection": True, "block_size": 3}, {}),
    ],
)
def test_gcsfs(given, reached):
    assert store(GCSFileSystem, **given) == reached


def test_gcsfs_cache_timeout():
    assert GCSFileSystem(cache_timeout=3).dircache.listings_expiry_time == 3
    assert not GCSFileSystem(cache_timeout=0).dircache.use_listings_cache


def test_gcsfs_read_only(on_embedded, tmp_path):
    path = f"{on_embedded.folder()}/file"
    on_embedded.fs().pipe_file(path, b"1")
    fs = on_embedded.fs(access="read_only")
    assert fs.cat(path) == b"1"
    (tmp_path / "file").write_bytes(b"2")
    for change in (
        lambda: fs.pipe_file(path, b"2"),
        lambda: fs.put_file(str(tmp_path / "file"), path),
        lambda: fs.cp_file(path, path),
        lambda: fs.rm_file(path),
        lambda: fs.rm(path),
        lambda: fs.mkdir("other"),
        lambda: fs.open(path, "wb"),
    ):
        with pytest.raises(PermissionError):
            change()
    assert fs.cat(path) == b"1"


@pytest.mark.parametrize(
    ("given", "reached"),
    [
        ({"account_name": "a", "account_key": "k"}, {"account": "a", "account_key": "k"}),
        ({"account_name": "a", "account_key": "k", "sas_token": "s"}, {"account": "a", "account_key": "k"}),
        ({"account_name": "a", "sas_token": "s", "anon": True}, {"account": "a", "sas": "s"}),
        ({"account_name": "a", "credential": "s"}, {"account": "a", "sas": "s"}),
        ({"account_name": "a", "anon": True}, {"account": "a", "anonymous": True}),
        ({"connection_string": "c", "account_name": "a", "account_key": "k"}, {"connection_string": "c"}),
        ({"account_name": "a", "account_host": "a.example.com"},
         {"account": "a", "endpoint_url": "https://a.example.com"}),
        ({"connection_timeout": 3, "read_timeout": 4, "timeout": 5, "location_mode": "primary"},
         {"connect_timeout": 3, "patience": 4}),
    ],
)  # fmt: skip
def test_adlfs(given, reached):
    assert store(AzureFileSystem, **given) == reached


@pytest.mark.parametrize(
    ("cls", "given", "named"),
    [
        (S3FileSystem, {"session": object()}, "session"),
        (S3FileSystem, {"version_aware": True}, "version_aware"),
        (S3FileSystem, {"use_ssl": False}, "use_ssl"),
        (S3FileSystem, {"client_kwargs": {"verify": False}}, "verify"),
        (S3FileSystem, {"client_kwargs": {"other": 1}}, "other"),
        (S3FileSystem, {"config_kwargs": {"proxies": {}}}, "proxies"),
        (S3FileSystem, {"s3_additional_kwargs": {"ACL": "public-read"}}, "ACL"),
        (S3FileSystem, {"key": "k"}, "secret"),
        (GCSFileSystem, {"token": "browser"}, "token"),
        (GCSFileSystem, {"token": "/home/key.json"}, "token"),
        (GCSFileSystem, {"token": {"type": "service_account"}}, "token"),
        (GCSFileSystem, {"access": "other"}, "access"),
        (AzureFileSystem, {"tenant_id": "t"}, "tenant_id"),
        (AzureFileSystem, {"client_id": "c"}, "client_id"),
        (AzureFileSystem, {"client_secret": "s"}, "client_secret"),
        (AzureFileSystem, {"credential": object()}, "credential"),
        (AzureFileSystem, {"location_mode": "secondary"}, "location_mode"),
        (S3FileSystem, {"project": "p"}, "project"),
        (LocalFileSystem, {"nonsense": 1}, "nonsense"),
    ],
)
def test_an_option_that_is_refused_is_named(cls, given, named):
    with pytest.raises((ValueError, TypeError), match=rf"\b{named}\b"):
        cls(**given)


#: A value of each option that is no flag.
VALUES = {
    "access": "read_only",
    "account_host": "a.example.com",
    "block_size": 3,
    "blocksize": 3,
    "cache_timeout": 3,
    "client_kwargs": {},
    "config_kwargs": {},
    "connection_timeout": 3,
    "consistency": "md5",
    "credential": "s",
    "default_block_size": 3,
    "default_cache_type": "readahead",
    "location_mode": "primary",
    "max_concurrency": 3,
    "read_timeout": 3,
    "s3_additional_kwargs": {},
    "timeout": 3,
    "token": "anon",
}


#: Options that are given with another.
WITH = {
    "key": {"secret": "s"},
    "password": {"username": "k"},
    "secret": {"key": "k"},
    "username": {"password": "s"},
}


@pytest.mark.parametrize(
    ("cls", "package", "names"),
    [(S3FileSystem, "s3fs", S3FS), (GCSFileSystem, "gcsfs", GCSFS), (AzureFileSystem, "adlfs", ADLFS)],
)
def test_every_option_is_known_and_documented(cls, package, names):
    _, _, table = DOCS.read_text().partition(f"\n### {package}\n")
    documented = set(re.findall(r"`(\w+)`", table.partition("\n### ")[0]))
    for name in names:
        assert name in documented, name
        try:
            cls(**{name: VALUES.get(name, True)}, **WITH.get(name, {}), skip_instance_cache=True)
        except ValueError as refused:
            assert re.search(rf"\b{name}\b", str(refused)), name


def test_the_first_option_can_be_given_by_position():
    assert store_of(S3FileSystem(True)) == {"anonymous": True}
    assert store_of(GCSFileSystem("p")) == {"project": "p"}
    assert store_of(AzureFileSystem("a", account_key="k")) == {"account": "a", "account_key": "k"}
    for fs in (S3FileSystem(True), GCSFileSystem("p"), AzureFileSystem("a", account_key="k")):
        again = pickle.loads(pickle.dumps(fs))
        assert again == fs and store_of(again) == store_of(fs)


def test_the_order_of_options_tells_no_file_systems_apart():
    given = {"key": "k", "secret": "s", "endpoint_url": "http://a"}
    turned = dict(reversed(given.items()))
    assert S3FileSystem(**given).fsid == S3FileSystem(**turned).fsid
    assert S3FileSystem(**given).fsid != S3FileSystem(**{**given, "key": "l"}).fsid


def test_concurrency_is_that_of_each_write():
    assert write(S3FileSystem, concurrency=3) == {"concurrency": 3} and store(S3FileSystem, concurrency=3) == {}
    assert write(S3FileSystem, concurrency="auto") == {} and store(S3FileSystem, concurrency="auto") == {
        "concurrency": "auto"
    }


def test_a_large_block_size_is_no_large_buffer(fs, folder):
    fs.pipe_file(f"{folder}/file", b"1" * 3_000_000)
    for given, size in ((64 << 20, 1 << 20), (5000, 5000), (None, 64 << 10)):
        with fs.open(f"{folder}/file", block_size=given) as file:
            assert file.blocksize == size
            assert file.read() == b"1" * 3_000_000


def test_files_say_when_they_were_created(fs, folder):
    fs.pipe_file(f"{folder}/file", b"1")
    assert fs.created(f"{folder}/file") == fs.modified(f"{folder}/file")


def test_both_callbacks_of_an_upload_are_told(fs, folder, tmp_path):
    class Figures(Callback):
        said = 0

        def call(self, *arguments, **options):
            self.said = self.value

    (tmp_path / "file").write_bytes(b"1" * 1000)
    told, figures = [], Figures()
    fs.put_file(str(tmp_path / "file"), f"{folder}/file", callback=figures, progress=told.append)
    assert figures.said == 1000 and told[-1].acknowledged == 1000
    told.clear()
    fs.put_file(str(tmp_path / "file"), f"{folder}/file", progress=told.append)
    assert told[-1].acknowledged == 1000


def test_attributes_of_s3fs_reach_the_object(minio, on_minio):
    path = f"{on_minio.folder()}/file"
    fs = on_minio.fs(s3_additional_kwargs={"Metadata": {"of": "all"}})
    fs.pipe_file(path, b"1", ContentType="text/x-one", CacheControl="no-store")
    bucket, key = path.split("/", 1)
    head = minio.endpoint.client().head_object(Bucket=bucket, Key=key)
    assert (head["ContentType"], head["CacheControl"], head["Metadata"]["of"]) == ("text/x-one", "no-store", "all")
    with fs.open(path, "wb", content_type="text/x-two", metadata={"of": "one"}) as file:
        file.write(b"2")
    head = minio.endpoint.client().head_object(Bucket=bucket, Key=key)
    assert (head["ContentType"], head["Metadata"]["of"]) == ("text/x-two", "one")
    with pytest.raises(TypeError, match="nonsense"):
        fs.pipe_file(path, b"1", nonsense=1)


def test_urls_of_azure():
    url = "abfss://container@account.dfs.core.windows.net/a/b"
    assert AzureFileSystem._strip_protocol(url) == "container/a/b"
    assert AzureFileSystem._get_kwargs_from_urls(url) == {"account_name": "account"}
    assert AzureFileSystem._get_kwargs_from_urls("abfss://c@acc.dfs.core.chinacloudapi.cn/a") == {
        "account_name": "acc",
        "account_host": "acc.blob.core.chinacloudapi.cn",
    }
    assert AzureFileSystem._strip_protocol("az://container/a@b/c") == "container/a@b/c"
    assert AzureFileSystem._get_kwargs_from_urls("az://container/a@b/c") == {}


def test_install_takes_over_the_usual_names(on_minio):
    before = dict(_registry)
    taken = {"s3": "S3", "s3a": "S3", "gs": "GCS", "gcs": "GCS", "az": "Azure", "abfs": "Azure", "abfss": "Azure"}
    try:
        tidegate.fsspec.install()
        for protocol, name in taken.items():
            assert fsspec.get_filesystem_class(protocol) is getattr(tidegate.fsspec, f"{name}FileSystem")
        folder = on_minio.folder()
        with fsspec.open(f"s3://{folder}/file", "wb", **on_minio.options) as file:
            file.write(b"1")
        fs, path = fsspec.url_to_fs(f"s3a://{folder}/file", **on_minio.options)
        assert fs.cat(path) == b"1"
        with pytest.raises(ValueError, match="'hdfs'"):
            tidegate.fsspec.install("hdfs")
    finally:
        for protocol in taken:
            _registry.pop(protocol, None)
        _registry.update(before)
