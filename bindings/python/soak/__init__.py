"""Many processes and threads that use one bucket for a long time: is every object right, does memory stay flat, is anything
left behind? `python -m soak` from `bindings/python`, with the extension and the command line built; `scripts/test --nightly`
runs it for ten minutes.

Each thread has twelve keys of its own and takes turns at random: it writes, puts, removes, reads, lists, pickles a store and
a reader, runs asyncio with a task that is cancelled, and forks a child that uses the store while the parent writes. Other
turns publish nothing: `discard`, an exception inside `with`, a file that is dropped. Every object says what it consists of,
so that a reader can tell a torn one from one that another thread has just replaced.

It fails, with exit code 1 and a sentence for each reason, if a turn sees other bytes or keys than it should, a process does
not end by itself, resident memory or open descriptors grow, or the bucket has other objects than the threads have left, or an
upload session. `--seed` makes the choices of each thread again; what happens at the same time differs.
"""
