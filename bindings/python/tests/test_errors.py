"""Errors are the library's text, and exceptions of Python's own types."""

import errno
import pickle

import pytest

import tidegate
from tidegate import _errors


def test_every_kind_has_an_exception_with_its_name_and_number():
    for kind, (exception_type, number) in _errors._KINDS.items():
        fields = dict(
            kind=kind, operation="get", url="s3://b/k", part=(2, 0, 5), attempts=3, elapsed=1.5, is_unreachable=False
        )
        error = _errors.from_fields("the text", fields)
        assert type(error) is exception_type and isinstance(error, tidegate.Error)
        assert str(error) == "the text"
        assert {name: getattr(error, name) for name in fields} == fields
        if isinstance(error, OSError):
            assert (error.errno, error.strerror, error.filename) == (number, "the text", "s3://b/k")
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is exception_type and str(again) == "the text"
        assert {name: getattr(again, name) for name in fields} == fields
        assert getattr(again, "errno", None) == getattr(error, "errno", None)
        assert exception_type.__module__ == "tidegate"
        assert getattr(tidegate, exception_type.__name__) is exception_type


@pytest.mark.parametrize(
    ("exception_type", "builtin"),
    [
        (tidegate.NotFoundError, FileNotFoundError),
        (tidegate.NoBucketError, FileNotFoundError),
        (tidegate.AlreadyExistsError, FileExistsError),
        (tidegate.PermissionDeniedError, PermissionError),
        (tidegate.CredentialsError, PermissionError),
        (tidegate.StoreTimeoutError, TimeoutError),
        (tidegate.UnavailableError, ConnectionError),
        (tidegate.InvalidInputError, ValueError),
        (tidegate.ClosedError, ValueError),
        (tidegate.ForkError, ValueError),
    ],
)
def test_exceptions_are_those_of_python_too(exception_type, builtin):
    assert issubclass(exception_type, builtin)


def test_a_missing_object(store, bucket):
    with pytest.raises(FileNotFoundError) as caught:
        store.get("missing/key")
    error = caught.value
    assert isinstance(error, tidegate.NotFoundError)
    assert (error.kind, error.operation, error.url) == ("not_found", "get", bucket.url("missing/key"))
    assert (error.errno, error.filename) == (errno.ENOENT, bucket.url("missing/key"))
    assert error.attempts == 1 and error.elapsed > 0
    assert str(error).startswith(f"{bucket.url('missing/key')}: get failed")


def test_a_missing_bucket(embedded, options):
    with pytest.raises(tidegate.NoBucketError):
        tidegate.Store("s3://no-such-bucket-here", **options).put("a", b"1")


def test_wrong_keys(bucket, options):
    with pytest.raises(PermissionError):
        tidegate.Store(bucket.url().rstrip("/"), **(options | {"secret_key": "wrong"})).get("a")


def test_a_server_that_is_not_there():
    store = tidegate.Store("s3://bucket", endpoint_url="http://127.0.0.1:1", access_key="a", secret_key="b", attempts=2)
    with pytest.raises(ConnectionError) as caught:
        store.get("a")
    assert caught.value.attempts == 2 and caught.value.is_unreachable


def test_a_url_that_names_nothing():
    with pytest.raises(ValueError, match="bucket name"):
        tidegate.Store("s3://b")
    with pytest.raises(ValueError, match="known"):
        tidegate.Store("ftp://bucket/x")


def test_a_report_of_removals_has_the_reasons(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b").write_text("1")
    store = tidegate.Store(tmp_path)
    report = store.delete_many(["a/b", "missing", "../x"])
    assert report.deleted == 2
    [(key, error)] = report.failed
    assert key == "../x" and isinstance(error, tidegate.Error)
