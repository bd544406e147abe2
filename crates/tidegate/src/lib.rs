//! Tidegate moves byte streams into and out of object storage.
