"""Google Cloud Storage as the embedded server speaks it, under Google's own Python client: the JSON API, and the XML
API that its transfer manager uses."""

import io
import os
import random
import uuid

import pytest
from google.api_core.exceptions import BadRequest, Conflict, NotFound, PreconditionFailed
from google.cloud import storage
from google.cloud.storage import transfer_manager
from google.cloud.storage.retry import DEFAULT_RETRY

KIB, MIB = 1 << 10, 1 << 20
GRAIN = 256 * KIB


@pytest.fixture
def gcs(server, monkeypatch):
    """A client as its users point it at an emulator: by the environment, without credentials."""
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
    client = storage.Client(project="tests")
    yield client
    client.close()


@pytest.fixture
def bucket(gcs):
    """A new bucket."""
    return gcs.create_bucket(f"bucket-{uuid.uuid4().hex[:12]}")


def content(size):
    return random.Random(size).randbytes(size)


def test_buckets(gcs, bucket):
    assert gcs.bucket(bucket.name).exists() and not gcs.bucket("nobody-has-this").exists()
    assert bucket.name in [each.name for each in gcs.list_buckets()]
    with pytest.raises(Conflict):
        gcs.create_bucket(bucket.name)
    bucket.blob("k").upload_from_string(b"x")
    with pytest.raises(Conflict):
        bucket.delete()
    bucket.delete(force=True)
    with pytest.raises(NotFound):
        gcs.get_bucket(bucket.name)


def test_an_object_and_what_describes_it(bucket):
    blob = bucket.blob("a/b c?#%ü")
    blob.metadata = {"Key": "välue"}
    blob.cache_control = "no-store"
    blob.upload_from_string(b"123456789", content_type="text/x")
    seen = bucket.get_blob("a/b c?#%ü")
    assert (seen.size, seen.content_type, seen.cache_control) == (9, "text/x", "no-store")
    assert seen.metadata == {"Key": "välue"}
    assert (seen.crc32c, seen.md5_hash) == ("4waSgw==", "JfnnlDI7RTiF9RgfG2JNCw==")
    assert (seen.generation, seen.metageneration) == (blob.generation, 1)
    assert seen.download_as_bytes() == b"123456789"
    seen.metadata = {"other": "1"}
    seen.patch()
    seen.reload()
    assert seen.metageneration == 2 and seen.metadata["other"] == "1"
    assert seen.time_created <= seen.updated
    seen.delete()
    assert not seen.exists() and bucket.get_blob("a/b c?#%ü") is None
    with pytest.raises(NotFound):
        seen.download_as_bytes()


@pytest.mark.parametrize("checksum", ["crc32c", "md5", "auto", None])
def test_checksums(bucket, checksum):
    body = content(3 * MIB)
    bucket.blob("one").upload_from_file(io.BytesIO(body), size=len(body), checksum=checksum)
    bucket.blob("many", chunk_size=MIB).upload_from_file(io.BytesIO(body), checksum=checksum)
    for name in ("one", "many"):
        assert bucket.blob(name).download_as_bytes(checksum=checksum) == body


@pytest.mark.parametrize("chunk", [GRAIN, MIB, 5 * MIB])
@pytest.mark.parametrize("size", [0, 1, GRAIN - 1, GRAIN, GRAIN + 1, 3 * MIB, 5 * MIB + 77])
def test_resumable_uploads(server, bucket, size, chunk):
    body = content(size)
    server.control("DELETE", "counts")
    # Without a size the client does not know the total until the stream ends.
    blob = bucket.blob("k", chunk_size=chunk)
    blob.upload_from_file(io.BytesIO(body))
    requests = server.counts()["requests"]
    assert requests["storage.resumable.start"] == 1
    sent = requests.get("storage.resumable.append", 0) + requests.get("storage.resumable.query", 0)
    # Behind a last chunk that is full there comes a request that says that it was the last.
    assert sent == size // chunk + 1
    assert blob.size == size and bucket.blob("k").download_as_bytes() == body


def test_a_size_that_is_known(server, bucket):
    body = content(9 * MIB)
    bucket.blob("k").upload_from_file(io.BytesIO(body), size=len(body))
    assert server.counts()["requests"]["storage.resumable.append"] == 1
    assert bucket.blob("k").download_as_bytes() == body


def test_a_writer(bucket):
    body = content(2 * MIB + 3)
    with bucket.blob("k").open("wb", chunk_size=GRAIN) as writer:
        for start in range(0, len(body), 100_000):
            writer.write(body[start : start + 100_000])
            assert bucket.get_blob("k") is None
    with bucket.blob("k").open("rb", chunk_size=GRAIN) as reader:
        reader.seek(MIB)
        assert reader.read() == body[MIB:]


def test_conditions(bucket):
    blob = bucket.blob("k")
    blob.upload_from_string(b"first", if_generation_match=0)
    for size in (None, 3):
        with pytest.raises(PreconditionFailed):
            bucket.blob("k").upload_from_file(io.BytesIO(b"two"), size=size, if_generation_match=0)
    with pytest.raises(PreconditionFailed):
        bucket.blob("k").download_as_bytes(if_generation_match=1)
    with pytest.raises(PreconditionFailed):
        blob.delete(if_generation_match=blob.generation + 1)
    first = blob.generation
    bucket.blob("k").upload_from_string(b"second", if_generation_match=first)
    with pytest.raises(NotFound):
        bucket.blob("k", generation=first).download_as_bytes()
    assert bucket.blob("k").download_as_bytes() == b"second"


@pytest.mark.parametrize("first, last", [(0, 0), (5, 99), (MIB, None), (None, 10), (2 * MIB - 1, None)])
def test_ranges(bucket, first, last):
    body = content(2 * MIB)
    bucket.blob("k").upload_from_string(body)
    wanted = body[first or 0 : len(body) if last is None else last + 1]
    assert bucket.blob("k").download_as_bytes(start=first, end=last) == wanted
    assert bucket.blob("k", chunk_size=GRAIN).download_as_bytes(start=first, end=last) == wanted


def test_listings(gcs, bucket):
    names = sorted([f"a/{n}" for n in range(7)] + [f"b/{n}/x" for n in range(3)] + ["c", "ü"])
    for name in names:
        bucket.blob(name).upload_from_string(b"x")
    assert [blob.name for blob in gcs.list_blobs(bucket, page_size=2)] == names
    top = gcs.list_blobs(bucket, delimiter="/", page_size=2)
    assert [blob.name for blob in top] == ["c", "ü"] and top.prefixes == {"a/", "b/"}
    below = gcs.list_blobs(bucket, prefix="b/", delimiter="/")
    assert list(below) == [] and below.prefixes == {"b/0/", "b/1/", "b/2/"}
    between = gcs.list_blobs(bucket, start_offset="a/5", end_offset="b/1")
    assert [blob.name for blob in between] == ["a/5", "a/6", "b/0/x"]


@pytest.mark.parametrize(
    "action",
    [
        {"error": {"status": 503, "code": "backendError"}},
        {"error_after": {"after_bytes": GRAIN + 5, "status": 503, "code": "backendError"}},
        {"deny_success": {"status": 503, "code": "backendError"}},
    ],
    ids=["before", "within", "behind"],
)
@pytest.mark.parametrize("nth", [0, 1, 2])
def test_the_client_resumes(server, bucket, nth, action):
    body = content(3 * MIB - 7)
    server.knobs(faults=[{"operation": "storage.resumable.append", "action": action, "skip": nth, "times": 1}])
    server.control("DELETE", "counts")
    fast = DEFAULT_RETRY.with_delay(initial=0.01, maximum=0.01)
    blob = bucket.blob("k", chunk_size=MIB)
    blob.upload_from_file(io.BytesIO(body), retry=fast)
    assert server.counts()["failed"] == {"storage.resumable.append": 1}
    assert blob.size == len(body) and bucket.blob("k").download_as_bytes() == body


def test_an_upload_with_a_wrong_checksum_is_refused(bucket):
    blob = bucket.blob("k")
    blob.crc32c = "AAAAAA=="
    with pytest.raises(BadRequest):
        blob.upload_from_file(io.BytesIO(b"123456789"), size=9, checksum=None, retry=None)
    assert bucket.get_blob("k") is None


def test_a_rewrite_goes_on_until_all_is_copied(server, bucket):
    body = content(5 * MIB // 2)
    source = bucket.blob("source")
    source.metadata = {"a": "b"}
    source.upload_from_string(body, content_type="text/x")
    server.knobs(rewrite_step=MIB)
    server.control("DELETE", "counts")
    target = bucket.blob("target")
    token, done, total = target.rewrite(source)
    seen = [(done, total)]
    while token:
        assert bucket.get_blob("target") is None
        token, done, total = target.rewrite(source, token=token)
        seen.append((done, total))
    assert seen == [(MIB, len(body)), (2 * MIB, len(body)), (len(body), len(body))]
    assert server.counts()["requests"]["storage.objects.rewrite"] == 3
    copied = bucket.get_blob("target")
    assert (copied.content_type, copied.metadata, copied.crc32c) == ("text/x", {"a": "b"}, source.crc32c)
    assert copied.generation == target.generation != source.generation
    assert copied.download_as_bytes() == body


def test_a_rewrite_is_of_one_generation(server, bucket):
    source = bucket.blob("source")
    source.upload_from_string(content(MIB + 1))
    server.knobs(rewrite_step=MIB)
    unloaded, target = bucket.blob("source"), bucket.blob("target")
    with pytest.raises(PreconditionFailed):
        target.rewrite(unloaded, if_source_generation_match=source.generation + 1)
    token, _, _ = target.rewrite(unloaded, if_source_generation_match=source.generation)
    source.upload_from_string(content(MIB + 1))
    with pytest.raises(BadRequest):
        target.rewrite(unloaded, token=token)
    assert bucket.get_blob("target") is None


def test_parts_at_once(server, bucket, tmp_path):
    """The transfer manager sends parts over the XML API."""
    body = content(17 * MIB + 5)
    source, copy = tmp_path / "source", tmp_path / "copy"
    source.write_bytes(body)
    blob = bucket.blob("k")
    blob.metadata = {"a": "b"}
    threads = {"worker_type": transfer_manager.THREAD, "max_workers": 3}
    for checksum in ("crc32c", "md5"):
        server.control("DELETE", "counts")
        transfer_manager.upload_chunks_concurrently(
            os.fspath(source), blob, chunk_size=5 * MIB, checksum=checksum, **threads
        )
        requests = server.counts()["requests"]
        assert requests == {"CreateMultipartUpload": 1, "UploadPart": 4, "CompleteMultipartUpload": 1}
        seen = bucket.get_blob("k")
        assert (seen.size, seen.metadata, seen.md5_hash) == (len(body), {"a": "b"}, None)
        transfer_manager.download_chunks_concurrently(seen, os.fspath(copy), chunk_size=3 * MIB, **threads)
        assert copy.read_bytes() == body
