"""universal_pathlib's own tests of S3, Google Cloud Storage and Azure on Tidegate's file systems. They are in the source
distribution, and run at night: `scripts/test --only suites`.

`upath_own.json` has the tests that fail, under the reasons."""

import shutil

import own_suite
import pytest

#: The servers that the tests would start, or have started, at ports of their own.
SERVERS = {
    '        endpoint_uri = f"http://127.0.0.1:{port}/"\n': '        endpoint_uri = os.environ["S3_URL"]\n',
    "def docker_azurite(azurite_credentials):\n": "def docker_azurite(azurite_credentials):\n"
    '    yield f"http://localhost:{AZURITE_PORT}"\n'
    "    return\n",
}


@pytest.mark.skipif(own_suite.SOURCES is None, reason="TIDEGATE_SUITES does not name the folder of these tests")
def test_universal_pathlib(moto, fake_gcs, azurite, tmp_path):
    shutil.copytree(f"{own_suite.SOURCES}/universal_pathlib-0.3.10", tmp_path / "source")
    conftest = tmp_path / "source" / "upath" / "tests" / "conftest.py"
    text = conftest.read_text()
    for written, ours in SERVERS.items():
        assert written.strip() in text, written
        text = text.replace(written.strip(), ours.strip("\n").strip())
    conftest.write_text(text)
    tests = tmp_path / "source" / "upath" / "tests" / "implementations"
    passed, failed, printed = own_suite.run(
        [tests / "test_s3.py", tests / "test_gcs.py", tests / "test_azure.py"],
        plugin="upath_swapped",
        cwd=tmp_path,
        timeout=1200,
        S3_URL=moto.url,
        STORAGE_EMULATOR_HOST=fake_gcs.url,
        UPATH_AZURITE_PORT=azurite.address.rpartition(":")[2],
    )
    assert failed == set(own_suite.failing("upath_own.json")), printed
    assert len(passed) > 200, printed
