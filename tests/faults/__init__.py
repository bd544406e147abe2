"""The fault suite: uploads through a network and a server that fail in the middle, each judged by what the server
holds afterwards. `python -m faults --help`, from the folder tests/."""
