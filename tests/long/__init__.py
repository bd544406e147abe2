"""Whole files of several GiB at full speed, through every face of Tidegate: what takes a second or more behaves otherwise than what takes
milliseconds. In CI for minutes; nightly for an hour with random sizes, rates and pauses."""
