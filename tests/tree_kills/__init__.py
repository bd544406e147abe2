"""Commands on whole trees that are killed at any moment.

Each run makes two trees, starts `sync --delete`, `cp -r`, `mv -r` or `rm -r` between a disk and MinIO or inside MinIO, kills
the program (SIGKILL) at a random moment, and looks:

1. what the command does not name is as it was;
2. each object is at its source or its target, and no object is torn: `mv` loses none, `cp` and `sync` leave the source alone;
3. the same command, run again, ends with exit code 0 and does everything.

`python -m tree_kills` in `tests/` does 24 runs; `--runs 500 --seed 1` more. A run that fails prints its seed.
"""
