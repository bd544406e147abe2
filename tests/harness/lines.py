"""The lines that the program prints: those of `--json`, checked against docs/json-lines.schema.json, and the sentence of a
failure."""

import json

from jsonschema import Draft202012Validator

from . import ROOT

SCHEMA = json.loads((ROOT / "docs" / "json-lines.schema.json").read_text())
LINES = SCHEMA["$defs"]["lines"]
# The types on standard error; all others are on standard output.
MESSAGES = {"error", "warning", "notice", "log"}


def _validator(name):
    """Only of one type: a line that is wrong is told with its reason, and many lines take no time."""
    schema = {"$defs": SCHEMA["$defs"], "$ref": f"#/$defs/lines/{name}"}
    return Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)


_VALIDATORS = {name: _validator(name) for name in LINES}


def checked(text, types=None):
    """The JSON objects of `text`, one a line, each as its type demands, and `type` first; of these types only."""
    objects = []
    for line in text.splitlines():
        found = json.loads(line)
        name = next(iter(found), None) == "type" and found["type"]
        assert name in (types or LINES), f"a line of no type that belongs here: {line}"
        wrong = list(_VALIDATORS[name].iter_errors(found))
        assert not wrong, f"{line}: {'; '.join(error.message for error in wrong)}"
        objects.append(found)
    return objects


def as_text(line):
    """A message as the program prints it without --json."""
    try:
        message = json.loads(line)
    except ValueError:
        return line
    if message.get("type") == "error" and message["kind"] != "interrupted":
        return f"error: {message['message']}"
    return f"warning: {message['message']}" if message.get("type") == "warning" else message["message"]


# What no sentence of a failure has.
DEBRIS = ("panicked", "Caused by", "stack backtrace", "Os {", "Error {", "Some(", "\n\n")


def one_sentence(result, *names, exit):
    """The run failed with this exit code (one, or one of several), printed nothing but one line on stderr (beside
    those that say what is waited for), and that line contains each of the names, whatever their case."""
    codes = exit if isinstance(exit, tuple) else (exit,)
    assert result.exit in codes, result
    lines = [line for line in result.err.splitlines() if line.strip() and not line.startswith("waiting: ")]
    assert len(lines) == 1, f"not one line on stderr: {result}"
    assert result.out == b"", f"something on stdout: {result}"
    for debris in DEBRIS:
        assert debris not in result.err, f"{debris!r} on stderr: {result}"
    for name in names:
        assert str(name).lower() in lines[0].lower(), f"{name!r} is not named: {result}"
    return lines[0]
