package io.tidegate.hadoop;

import io.tidegate.Options;
import io.tidegate.Store;

import org.apache.hadoop.fs.Path;

/**
 * An open bucket.
 *
 * @param store the bucket as the library has it
 * @param write the options of every write
 * @param root the path of the bucket, whose objects are below it
 */
record Bucket(Store store, Options write, Path root) {}
