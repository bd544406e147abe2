//! An embedded S3-compatible server for tests, demonstrations and measurements.
