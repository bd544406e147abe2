"""What a failed command may say: one sentence that names what went wrong and where."""

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
