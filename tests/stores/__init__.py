"""What the program does, with its default options, on every server that people test with: `python -m stores --help`, from the
folder tests/. The servers also run the library's behaviour suite: `python -m stores.behaviour`."""
