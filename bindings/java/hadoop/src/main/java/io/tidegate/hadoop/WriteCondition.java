package io.tidegate.hadoop;

/** What a file's path must have for the file to be published. */
sealed interface WriteCondition {
    /** Anything but a directory: a file is replaced. */
    record None() implements WriteCondition {}

    /** Nothing, when the file is created and when it is published. */
    record Absent() implements WriteCondition {}

    /**
     * A file with this tag, when the file is created and when it is published.
     *
     * @param etag as {@link org.apache.hadoop.fs.EtagSource} gives it
     */
    record Tagged(String etag) implements WriteCondition {}
}
