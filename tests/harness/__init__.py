"""What the end-to-end tests stand on: real servers, a proxy with faults, and the command line measured."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / ".tools" / "bin"

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
