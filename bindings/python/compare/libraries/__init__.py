"""One file a library. Only that of the library that is measured is imported, so that its memory is its own."""

import importlib

from ..library import Library

#: The class of each library, by its module's name, in the order of the table.
LIBRARIES = {
    "tidegate": "Tidegate",
    "boto3": "Boto3",
    "s3fs": "S3fs",
    "obstore": "Obstore",
    "pyarrow": "Pyarrow",
    "smart_open": "SmartOpen",
}


def library_type(name: str) -> type[Library]:
    found: type[Library] = getattr(importlib.import_module(f".{name}", __name__), LIBRARIES[name])
    return found
