"""`gs://`: the commands against the embedded server, which is looked into as S3, through boto3."""

import json
import subprocess
import urllib.request

import pytest

from harness import MIB
from harness.feed import open_pipe
from harness.google import Counts, Over, over_either
from harness.lines import one_sentence
from harness.process import until

PART = 5 * MIB
QUIET = ("--progress", "never")
PUT = {"storage.objects.insert": 1}


class Google:
    """A bucket as Google's side of the embedded server has it."""

    def __init__(self, embedded, bucket, over):
        self.url, self.bucket = embedded.url, bucket
        # As Google's clients take it as well: without a scheme.
        self.env = {"STORAGE_EMULATOR_HOST" if over == "http" else "STORAGE_EMULATOR_HOST_GRPC": embedded.address}

    def at(self, key=""):
        return f"gs://{self.bucket.name}/{key}"

    def resource(self, key):
        with urllib.request.urlopen(f"{self.url}/storage/v1/b/{self.bucket.name}/o/{key}", timeout=10) as answer:
            return json.load(answer)


@pytest.fixture(params=["http", "grpc"])
def over(request):
    return request.param


@pytest.fixture
def google(embedded, embedded_bucket, over):
    return Google(embedded, embedded_bucket, over)


@pytest.fixture
def tidegate(tidegate, over):
    return Over(tidegate, over)


@pytest.fixture
def counts(counts):
    return Counts(counts)


@pytest.fixture
def knobs(knobs):
    return lambda faults: knobs(faults=over_either(faults))


def parts(count):
    return {"CreateMultipartUpload": 1, "UploadPart": count, "CompleteMultipartUpload": 1}


def chunks(count):
    return {"storage.resumable.start": 1, "storage.resumable.append": count}


@pytest.mark.parametrize("from_pipe", [False, True], ids=["file", "pipe"])
@pytest.mark.parametrize(
    "size, strategy, requests",
    [
        (0, "auto", PUT),
        (PART, "auto", PUT),
        (PART + 1, "auto", parts(2)),
        (3 * PART, "parallel", parts(3)),
        (PART, "chunked", PUT),
        (2 * PART, "chunked", chunks(2)),
        (2 * PART + 1, "chunked", chunks(3)),
        (3 * PART, "put", PUT),
    ],
)
def test_an_object_arrives_in_the_fewest_requests(
    tidegate, google, counts, make_file, size, strategy, requests, from_pipe
):
    path, digest = make_file(size)
    counts.reset()
    options = ("--part-size", "5MiB", "--strategy", strategy, *QUIET)
    if from_pipe:
        with subprocess.Popen(["cat", path], stdout=subprocess.PIPE) as source:
            run = tidegate("cp", "-", google.at("k"), *options, stdin=source.stdout, env=google.env)
    else:
        run = tidegate("cp", path, google.at("k"), *options, env=google.env)
    assert run.exit == 0, run
    assert counts() == requests
    assert google.bucket.sha256("k") == digest
    assert int(google.resource("k")["size"]) == size


def test_what_an_object_carries(tidegate, google, make_file):
    path, _ = make_file(1000)
    carried = ("--content-type", "text/x", "--cache-control", "max-age=5", "--metadata", "owner=me")
    run = tidegate("cp", path, google.at("k"), *carried, "--storage-class", "NEARLINE", *QUIET, env=google.env)
    assert run.exit == 0, run
    shown = google.resource("k")
    assert (shown["contentType"], shown["cacheControl"], shown["storageClass"]) == ("text/x", "max-age=5", "NEARLINE")
    assert shown["metadata"]["owner"] == "me" and shown["metadata"]["tidegate-writer"]
    run = tidegate("stat", google.at("k"), "--json", env=google.env)
    assert run.json[0]["crc32c"] == shown["crc32c"], run
    run = tidegate("cp", path, google.at("k"), "--tag", "a=b", *QUIET, env=google.env)
    one_sentence(run, google.at("k"), "no tags", exit=(1, 2))


def test_the_other_commands(tidegate, google, make_file, tmp_path):
    folder = tmp_path / "tree"
    (folder / "below").mkdir(parents=True)
    (folder / "one").write_bytes(b"1")
    (folder / "below" / "two words").write_bytes(b"22")
    assert tidegate("cp", "-r", f"{folder}/", google.at("t/"), *QUIET, env=google.env).exit == 0
    run = tidegate("ls", google.at("t/"), env=google.env)
    assert [line.split()[-1] for line in run.text.splitlines()] == ["below/", "one"], run
    assert tidegate("cat", google.at("t/below/two words"), env=google.env).out == b"22"
    assert tidegate("cat", google.at("t/below/two words"), "--range", "1-", env=google.env).out == b"2"
    assert tidegate("cp", "-r", google.at("t/"), f"{tmp_path}/back", *QUIET, env=google.env).exit == 0
    assert (tmp_path / "back" / "below" / "two words").read_bytes() == b"22"
    assert tidegate("rm", google.at("t/one"), env=google.env).exit == 0
    one_sentence(tidegate("cat", google.at("t/one"), env=google.env), google.at("t/one"), exit=3)
    assert tidegate("rm", "-r", google.at("t/"), env=google.env).exit == 0
    assert tidegate("ls", google.at(), env=google.env).out == b""


@pytest.mark.parametrize("strategy", ["auto", "parallel", "chunked", "put"])
def test_create_only_is_the_stores_own_condition(tidegate, google, over, counts, make_file, strategy):
    path, digest = make_file(3 * PART)
    options = ("--create-only", "--part-size", "5MiB", "--strategy", strategy, *QUIET)
    counts.reset()
    assert tidegate("cp", path, google.at("k"), *options, env=google.env).exit == 0
    asked = counts()
    # A server that is not Google's and has not answered yet may ignore the condition: it is asked for the key.
    assert asked.pop("storage.objects.get" if over == "http" else "storage.v2.GetObject", 0) == 1
    assert asked == (PUT if strategy == "put" else chunks(3)), "nothing else is asked beforehand"
    other, _ = make_file(2 * PART)
    run = tidegate("cp", other, google.at("k"), *options, env=google.env)
    one_sentence(run, google.at("k"), "has an object already", exit=1)
    assert google.bucket.sha256("k") == digest


@pytest.mark.parametrize("from_pipe", [False, True], ids=["file", "pipe"])
def test_a_resumable_upload_goes_on_where_it_stood(tidegate, google, over, counts, knobs, make_file, from_pipe):
    path, digest = make_file(4 * PART + 7)
    rule = {"operation": "storage.resumable.append"}
    knobs(
        faults=[
            {**rule, "action": {"reset_request": {"after_bytes": 3 * MIB}}, "times": 1},
            {**rule, "action": "lose_answer", "skip": 2, "times": 1},
            {**rule, "action": {"error": {"status": 503, "code": "backendError"}}, "skip": 4, "times": 1},
        ]
    )
    counts.reset()
    options = ("--part-size", "5MiB", "--strategy", "chunked", *QUIET)
    if from_pipe:
        with subprocess.Popen(["cat", path], stdout=subprocess.PIPE) as source:
            run = tidegate("cp", "-", google.at("k"), *options, stdin=source.stdout, env=google.env)
    else:
        run = tidegate("cp", path, google.at("k"), *options, env=google.env)
    assert run.exit == 0, run
    assert google.bucket.sha256("k") == digest
    asked = counts()
    assert asked["storage.resumable.query"] == 3, asked
    # Five chunks, and what of two was not there; the lost answer's chunk was. Over gRPC the server cuts between
    # messages, but for that as well.
    assert asked["storage.resumable.append"] == 7, asked


def test_ctrl_c_cancels_a_resumable_upload(tidegate, google, counts):
    counts.reset()
    with open_pipe() as pipe:
        options = ("--part-size", "5MiB", "--strategy", "chunked", *QUIET)
        run = tidegate.start("cp", "-", google.at("cut"), *options, stdin=pipe.stdin, env=google.env)
        pipe.started()
        pipe.send(b"a" * (2 * PART))
        until("a chunk is stored", lambda: counts().get("storage.resumable.append", 0) >= 1)
        run.interrupt()
        result = run.wait(20)
    one_sentence(result, "abort", exit=130)
    assert counts()["storage.resumable.cancel"] == 1
    google.bucket.assert_untouched("cut")


def test_what_a_killed_process_left_is_swept(tidegate, google, counts, tmp_path):
    """No listing shows it: the records of this machine do."""
    env = google.env | {"XDG_STATE_HOME": str(tmp_path)}
    counts.reset()
    with open_pipe() as pipe:
        options = ("--part-size", "5MiB", "--strategy", "chunked", *QUIET)
        run = tidegate.start("cp", "-", google.at("d e/ad"), *options, stdin=pipe.stdin, env=env)
        pipe.started()
        pipe.send(b"a" * (2 * PART))
        until("a chunk is stored", lambda: counts().get("storage.resumable.append", 0) >= 1)
        run.kill()
        until("it is gone", lambda: run.ended)
    young = tidegate("sweep", google.at(), env=env)
    assert young.exit == 0 and "storage.resumable.cancel" not in counts(), young
    swept = tidegate("sweep", google.at(), "--older-than", "0s", env=env)
    assert swept.exit == 0 and f"of process {run.pid}, which is gone" in swept.text, swept
    assert counts()["storage.resumable.cancel"] == 1
    assert list(tmp_path.glob("tidegate/*.sessions")) == []
    google.bucket.assert_untouched("d e/ad")


def test_what_is_wrong_is_one_sentence(tidegate, google, make_file, tmp_path):
    path, _ = make_file(1000)
    nowhere = f"gs://{google.bucket.name}-none/k"
    one_sentence(tidegate("cp", path, nowhere, *QUIET, env=google.env), nowhere, "bucket", exit=3)
    nobody = {"HOME": str(tmp_path), "GCE_METADATA_HOST": "127.0.0.1:1"}
    run = tidegate("cp", path, "gs://bucket/k", *QUIET, env=nobody)
    one_sentence(run, "gs://bucket/k", "no credentials found", "gcloud auth", exit=4)
    missing = {**nobody, "GOOGLE_APPLICATION_CREDENTIALS": "/none.json"}
    run = tidegate("stat", "gs://bucket/k", env=missing)
    one_sentence(run, "gs://bucket/k", "/none.json", exit=4)
