"""Files of several GiB at full speed, through every face of Tidegate: faults of transfers that take a second or more do
not show in tests that take milliseconds. In CI for minutes; nightly for an hour with random sizes, rates and pauses."""
