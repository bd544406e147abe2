"""Dask's own tests of S3, run from the installed package with `s3` taken over. None of them fails."""

import own_suite


def test_dask_s3(moto, tmp_path):
    passed, failed, printed = own_suite.run(
        ["--pyargs", "dask.bytes.tests.test_s3"], plugin="dask_s3", cwd=tmp_path, timeout=300, DASK_S3_URL=moto.url
    )
    assert moto.running, moto.log_end()
    assert not failed, printed
    assert len(passed) >= 30, printed
