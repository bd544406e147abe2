"""s3fs's own tests on Tidegate's class. They are in s3fs's source distribution, and take minutes, so they run
at night: `scripts/test --only suites`.

`s3fs_own.json` has the tests that fail, under the reasons."""

import own_suite
import pytest

FAILS = own_suite.failing("s3fs_own.json")
#: On a busy machine they fail, elsewhere they pass.
SLOW = {name for name, why in FAILS.items() if why.startswith("moto is too slow")}


@pytest.mark.skipif(own_suite.SOURCES is None, reason="TIDEGATE_SUITES does not name the folder of s3fs's tests")
def test_s3fs(moto, tmp_path):
    passed, failed, printed = own_suite.run(
        ["--pyargs", "s3fs.tests.test_s3fs"],
        plugin="s3fs_swapped",
        cwd=tmp_path,
        timeout=3600,
        S3FS_SOURCE=f"{own_suite.SOURCES}/s3fs-2026.9.0",
        S3FS_URL=moto.url,
        AWS_ACCESS_KEY_ID="user",
        AWS_SECRET_ACCESS_KEY="secret",
        AWS_DEFAULT_REGION="us-east-1",
    )
    # The module, which the plugin has loaded, has no name in the report.
    names = {name.partition(".")[2] for name in failed}
    assert names - SLOW == set(FAILS) - SLOW, printed
    # Of 222: not so few because a test of the suite is not found.
    assert len(passed) + len(SLOW) > 120, printed
