"""A folder of the local disk as the place that the program writes to, asked through the file system."""

import hashlib
from pathlib import Path


class Folder:
    """One new folder, and questions about it."""

    options = ()
    env = {}

    def __init__(self, path: Path):
        self._path = path
        path.mkdir()

    def url(self, key=""):
        return f"{self._path}/{key}"

    def put(self, key, body):
        path = self._path / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)

    def sha256(self, key):
        with open(self._path / key, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def size(self, key):
        """None where there is no such file."""
        path = self._path / key
        return path.stat().st_size if path.exists() else None

    def keys(self):
        """Every file, hidden ones too."""
        return sorted(str(path.relative_to(self._path)) for path in self._path.rglob("*") if path.is_file())
