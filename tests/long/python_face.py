"""Moves one file with the Python package: python_face.py blocking|aio upload|download URL FILE."""

import asyncio
import sys

import tidegate
import tidegate.aio


def main():
    face, verb, url, path = sys.argv[1:]
    module = {"blocking": tidegate, "aio": tidegate.aio}[face]
    moved = {"upload": lambda: module.upload(path, url), "download": lambda: module.download(url, path)}[verb]()
    if face == "aio":

        async def wait():
            await moved

        asyncio.run(wait())


main()
