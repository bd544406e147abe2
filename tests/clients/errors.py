"""What a refused request answers."""

import contextlib

import pytest
from botocore.exceptions import ClientError


@contextlib.contextmanager
def refused(code, status=None):
    """The block's request is refused with this code, and with this status where one is given."""
    with pytest.raises(ClientError) as caught:
        yield
    answer = caught.value.response
    assert answer["Error"]["Code"] == code, answer
    if status is not None:
        assert answer["ResponseMetadata"]["HTTPStatusCode"] == status, answer
