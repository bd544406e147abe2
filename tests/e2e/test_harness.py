"""The instruments themselves: a test that trusts a wrong gauge shows nothing."""

import base64
import signal
import sys

from harness import KIB
from harness.command import Run
from harness.crc64nvme import crc64nvme


def python(program):
    return Run([sys.executable, "-I", "-S", "-c", program], env=None, stdin=None, cwd=None, stdout=None)


def test_the_peak_is_the_programs_own():
    assert python("pass").wait(20).peak_kib < 20 * KIB
    large = python("b = bytearray(100 << 20); b[::4096] = b'x' * len(b[::4096]); del b").wait(20)
    assert 100 * KIB < large.peak_kib < 120 * KIB


def test_exit_codes_and_signals_are_told():
    assert python("raise SystemExit(7)").wait(20).exit == 7
    assert python("import os; os.kill(os.getpid(), 9)").wait(20).exit == -signal.SIGKILL


def test_the_checksum_is_the_published_one():
    assert base64.b64decode(crc64nvme(b"123456789")).hex() == "ae8b14860a799888"


def test_the_store_refuses_a_wrong_checksum(any_bucket):
    """So that a checksum test on this store can fail at all."""
    try:
        any_bucket.put("k", b"123456789", ChecksumCRC64NVME=crc64nvme(b"12345678x"))
    except any_bucket.client.exceptions.ClientError as refused:
        assert refused.response["ResponseMetadata"]["HTTPStatusCode"] == 400
    else:
        raise AssertionError("the store took a wrong checksum")
    assert not any_bucket.exists("k")
