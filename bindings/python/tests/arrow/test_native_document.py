"""The examples of docs/arrow.md."""

import doctest
from pathlib import Path


def test_examples_of_the_document():
    document = Path(__file__).parents[2] / "docs" / "arrow.md"
    failed, tried = doctest.testfile(str(document), module_relative=False, encoding="utf-8")
    assert failed == 0 and tried > 8
