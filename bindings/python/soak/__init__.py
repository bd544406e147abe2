"""Many processes and threads that use one bucket for a long time: is every object right, does memory stay flat, is anything
left behind? `python -m soak`; see README.md."""
