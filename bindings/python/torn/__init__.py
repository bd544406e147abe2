"""What is in the store after a program has stopped in the middle of a file: for each library, each wrapper that people write
files through, and each way to stop. `python -m torn` prints the table."""
