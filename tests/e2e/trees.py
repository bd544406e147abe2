"""Trees of objects in stores and on disk, asked without the program under test."""

import os

from harness.s3 import Bucket

OLD = 1_000_000_000  # 2001


def plant(root, files, time=OLD):
    """Makes files below a directory, all of one age."""
    root.mkdir(parents=True, exist_ok=True)
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
        os.utime(root / path, (time, time))
    return root


def below(root):
    """The files below a directory, with their bytes."""
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def stored(bucket, prefix=""):
    """The objects below a prefix, with their bytes."""
    return {key.removeprefix(prefix): bucket.get(key) for key in bucket.keys(prefix)}


def lines(run):
    """The lines of standard output, in no order."""
    return sorted(run.text.splitlines())


def profiles(tmp_path, **endpoints):
    """The environment in which each name is a profile that reaches an endpoint."""
    config = "".join(
        f"[profile {name}]\nendpoint_url = {at.url}\nregion = us-east-1\n" for name, at in endpoints.items()
    )
    keys = "".join(
        f"[{name}]\naws_access_key_id = {at.access_key}\naws_secret_access_key = {at.secret_key}\n"
        for name, at in endpoints.items()
    )
    (tmp_path / "config").write_text(config)
    (tmp_path / "credentials").write_text(keys)
    files = {"AWS_CONFIG_FILE": tmp_path / "config", "AWS_SHARED_CREDENTIALS_FILE": tmp_path / "credentials"}
    return {name: str(path) for name, path in files.items()}


def two_addresses(bucket, tmp_path):
    """The environment in which `a` and `b` are profiles that reach one server by two addresses."""
    endpoint = bucket.endpoint
    other = endpoint.at(endpoint.url.replace("127.0.0.1", "localhost"))
    assert other.url != endpoint.url
    return profiles(tmp_path, a=endpoint, b=other)


class Folder:
    """A directory, asked as a bucket is."""

    env = {}

    def __init__(self, root):
        self.root = root
        root.mkdir()

    def url(self, key=""):
        return f"{self.root}/{key}"

    def put(self, key, body):
        plant(self.root, {key: body})

    def keys(self):
        walked = os.walk(self.root)
        return {os.path.relpath(os.path.join(folder, name), self.root) for folder, _, names in walked for name in names}

    def held(self):
        return below(self.root)


class Prefix:
    """Everything below a prefix of a bucket."""

    def __init__(self, bucket, prefix=""):
        self.bucket, self.prefix, self.env = bucket, prefix, bucket.env

    def url(self, key=""):
        return self.bucket.url(self.prefix + key)

    def put(self, key, body):
        self.bucket.put(self.prefix + key, body)

    def keys(self):
        return {key.removeprefix(self.prefix) for key in self.bucket.keys(self.prefix)}

    def held(self):
        return stored(self.bucket, self.prefix)


class GooglePrefix(Prefix):
    """The same, reached by the program as Google's."""

    def __init__(self, bucket, prefix=""):
        super().__init__(bucket, prefix)
        self.env = {"STORAGE_EMULATOR_HOST": bucket.endpoint.url}

    def url(self, key=""):
        return f"gs://{self.bucket.name}/{self.prefix}{key}"


def places(request, tmp_path):
    """`place("minio")` is an empty place there: a directory (disk), a prefix of the test's bucket (minio, versitygw,
    embedded, google), or another bucket of the same server (minio2). The same word gives another place each time."""
    made, buckets = [], {}

    def place(kind):
        made.append(kind)
        name = f"place{len(made)}"
        if kind == "disk":
            return Folder(tmp_path / name)
        if kind not in buckets:
            server = {"google": "embedded"}.get(kind, kind.rstrip("2"))
            buckets[kind] = Bucket(request.getfixturevalue(server).endpoint)
        return (GooglePrefix if kind == "google" else Prefix)(buckets[kind], f"{name}/")

    return place
