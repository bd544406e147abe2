package io.tidegate.hadoop;

import java.util.Locale;

/** The protocol of a store. */
enum Dialect {
    S3,
    GOOGLE,
    AZURE;

    /**
     * The dialect of a scheme of Hadoop's, or of the authority of {@code tg://}.
     *
     * @throws IllegalArgumentException if no store has this scheme
     */
    static Dialect of(String scheme) {
        return switch (scheme.toLowerCase(Locale.ROOT)) {
            case "s3", "s3a", "s3n" -> S3;
            case "gs" -> GOOGLE;
            case "az", "abfs", "abfss" -> AZURE;
            default ->
                    throw new IllegalArgumentException(
                            scheme + " is no scheme of an object store: use s3, s3a, gs or abfs");
        };
    }

    /**
     * The URL of a bucket, as the library has it.
     *
     * @param bucket the name of the bucket; on Azure {@code container} or {@code container@host}
     */
    String url(String bucket) {
        return switch (this) {
            case S3 -> "s3://" + bucket;
            case GOOGLE -> "gs://" + bucket;
            case AZURE -> (bucket.contains("@") ? "abfss://" : "az://") + bucket;
        };
    }
}
