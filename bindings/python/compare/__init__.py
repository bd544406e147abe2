"""Tidegate beside the other Python libraries for S3, on one server: `python -m compare` prints the table. README.md says
how each library is used."""
