"""Google's gRPC protocol as the embedded server speaks it, under Google's generated Python client."""

import random
import time

import google_crc32c
import grpc
import pytest
from google.api_core.exceptions import Aborted, FailedPrecondition, InvalidArgument, NotFound, ServiceUnavailable
from google.cloud import _storage_v2 as v2
from google.cloud._storage_v2.services.storage.transports import StorageGrpcTransport

GRAIN = 256 << 10
MESSAGE = 2 << 20


@pytest.fixture
def client(server):
    channel = grpc.insecure_channel(server.url.removeprefix("http://"))
    yield v2.StorageClient(transport=StorageGrpcTransport(channel=channel))
    channel.close()


@pytest.fixture
def parent(name):
    """The bucket, made over S3: it is the same from all sides."""
    return f"projects/_/buckets/{name}"


def content(size):
    return random.Random(size).randbytes(size)


def data(piece):
    return v2.ChecksummedData(content=piece, crc32c=google_crc32c.value(piece))


def requests(first, body, offset=0, finish=True):
    """The messages of one stream."""
    starts = range(0, len(body), MESSAGE) or [0]
    for start in starts:
        piece = body[start : start + MESSAGE]
        is_last = finish and start == starts[-1]
        head = first if start == 0 else {}
        yield v2.WriteObjectRequest(
            write_offset=offset + start, checksummed_data=data(piece), finish_write=is_last, **head
        )


def spec(parent, key, **more):
    return v2.WriteObjectSpec(resource=v2.Object(bucket=parent, name=key, content_type="text/x"), **more)


def read(client, parent, key, **more):
    answers = client.read_object(v2.ReadObjectRequest(bucket=parent, object_=key, **more))
    pieces = []
    for answer in answers:
        piece = answer.checksummed_data.content
        if piece:
            assert answer.checksummed_data.crc32c == google_crc32c.value(piece)
        pieces.append(piece)
    return b"".join(pieces)


@pytest.mark.parametrize("size", [0, 1, GRAIN, 5 * MESSAGE + 3])
def test_one_stream(client, server, s3, parent, name, size):
    body = content(size)
    made = client.write_object(requests({"write_object_spec": spec(parent, "k")}, body)).resource
    assert (made.size, made.content_type, made.checksums.crc32c) == (size, "text/x", google_crc32c.value(body))
    assert client.get_object(v2.GetObjectRequest(bucket=parent, object_="k")) == made
    assert read(client, parent, "k") == body
    assert s3.get_object(Bucket=name, Key="k")["Body"].read() == body
    if size > 100:
        assert read(client, parent, "k", read_offset=-50, read_limit=20) == body[-50:-30]
    client.delete_object(v2.DeleteObjectRequest(bucket=parent, object_="k"))
    with pytest.raises(NotFound):
        client.get_object(v2.GetObjectRequest(bucket=parent, object_="k"))


def test_a_session(client, server, parent):
    body = content(3 * MESSAGE + 9)
    start = v2.StartResumableWriteRequest(write_object_spec=spec(parent, "k", if_generation_match=0))
    upload = client.start_resumable_write(start).upload_id
    status = v2.QueryWriteStatusRequest(upload_id=upload)
    assert client.query_write_status(status).persisted_size == 0
    first = client.write_object(requests({"upload_id": upload}, body[:MESSAGE], finish=False))
    assert first.persisted_size == MESSAGE == client.query_write_status(status).persisted_size
    fault = {"operation": "storage.v2.WriteObject", "times": 1}
    server.knobs(
        faults=[{**fault, "action": {"error_after": {"after_bytes": MESSAGE + 4096, "status": 503, "code": "x"}}}]
    )
    with pytest.raises(ServiceUnavailable):
        client.write_object(requests({"upload_id": upload}, body[MESSAGE:], offset=MESSAGE), retry=None)
    assert client.query_write_status(status).persisted_size == 2 * MESSAGE
    made = client.write_object(requests({"upload_id": upload}, body[2 * MESSAGE :], offset=2 * MESSAGE)).resource
    assert made.size == len(body) and read(client, parent, "k") == body
    assert client.query_write_status(status).resource == made
    with pytest.raises(FailedPrecondition):
        client.write_object(requests({"write_object_spec": spec(parent, "k", if_generation_match=0)}, body))


def test_a_cancelled_session(client, parent):
    upload = client.start_resumable_write(v2.StartResumableWriteRequest(write_object_spec=spec(parent, "k"))).upload_id
    client.cancel_resumable_write(v2.CancelResumableWriteRequest(upload_id=upload))
    with pytest.raises(NotFound):
        client.query_write_status(v2.QueryWriteStatusRequest(upload_id=upload))


def test_wrong_checksums(client, parent):
    wrong = v2.ChecksummedData(content=b"123456789", crc32c=1)
    request = v2.WriteObjectRequest(write_object_spec=spec(parent, "k"), checksummed_data=wrong, finish_write=True)
    with pytest.raises(InvalidArgument):
        client.write_object(iter([request]))
    request.checksummed_data = data(b"123456789")
    request.object_checksums = v2.ObjectChecksums(crc32c=1)
    with pytest.raises(InvalidArgument):
        client.write_object(iter([request]))
    with pytest.raises(NotFound):
        client.get_object(v2.GetObjectRequest(bucket=parent, object_="k"))


def test_both_ways(client, parent):
    body = content(2 * GRAIN + 100)

    def stream():
        yield v2.BidiWriteObjectRequest(
            write_object_spec=spec(parent, "k"), checksummed_data=data(body[:GRAIN]), flush=True, state_lookup=True
        )
        yield v2.BidiWriteObjectRequest(write_offset=GRAIN, checksummed_data=data(body[GRAIN:]), finish_write=True)

    answers = list(client.bidi_write_object(stream()))
    assert answers[0].persisted_size == GRAIN and answers[-1].resource.size == len(body)
    assert read(client, parent, "k") == body


def test_a_rewrite(client, server, parent):
    body = content(2 * MESSAGE + 3)
    source = client.write_object(requests({"write_object_spec": spec(parent, "source")}, body)).resource
    server.knobs(rewrite_step=MESSAGE)
    rewrite = v2.RewriteObjectRequest(
        source_bucket=parent, source_object="source", destination_bucket=parent, destination_name="target"
    )
    wrong = v2.RewriteObjectRequest(rewrite, if_source_generation_match=source.generation + 1)
    with pytest.raises(FailedPrecondition):
        client.rewrite_object(wrong)
    answers = [client.rewrite_object(rewrite)]
    while not answers[-1].done:
        with pytest.raises(NotFound):
            client.get_object(v2.GetObjectRequest(bucket=parent, object_="target"))
        rewrite.rewrite_token = answers[-1].rewrite_token
        answers.append(client.rewrite_object(rewrite))
    rewritten = [(answer.total_bytes_rewritten, answer.object_size) for answer in answers]
    assert rewritten == [(done, len(body)) for done in (MESSAGE, 2 * MESSAGE, len(body))]
    copied = answers[-1].resource
    assert (copied.content_type, copied.checksums.crc32c) == ("text/x", google_crc32c.value(body))
    assert read(client, parent, "target") == body
    # The token of the second call is of an object that is replaced now.
    client.write_object(requests({"write_object_spec": spec(parent, "source")}, body))
    with pytest.raises(InvalidArgument):
        client.rewrite_object(rewrite)


def test_listings(client, parent):
    for key in ["a/1", "a/2", "b", "c"]:
        client.write_object(requests({"write_object_spec": spec(parent, key)}, b"x"))
    pager = client.list_objects(v2.ListObjectsRequest(parent=parent, page_size=1, delimiter="/"))
    pages = list(pager.pages)
    assert [each.name for page in pages for each in page.objects] == ["b", "c"]
    assert [prefix for page in pages for prefix in page.prefixes] == ["a/"]


def test_two_writers_of_a_session(client, server, parent):
    upload = client.start_resumable_write(v2.StartResumableWriteRequest(write_object_spec=spec(parent, "k"))).upload_id

    def lost():
        yield from requests({"upload_id": upload}, content(GRAIN), finish=False)
        # Once that has come, another goes on with the session.
        deadline = time.monotonic() + 30
        while server.counts()["bytes_in"] < GRAIN:
            assert time.monotonic() < deadline, "the bytes do not arrive"
            time.sleep(0.005)
        client.write_object(requests({"upload_id": upload}, b"all of it"))

    server.control("DELETE", "counts")
    with pytest.raises(Aborted):
        client.write_object(lost(), retry=None)
    assert read(client, parent, "k") == b"all of it"
