package io.tidegate.hadoop;

import org.apache.hadoop.fs.Options.OpenFileOptions;

import java.util.Optional;

/** How the bytes of a file are asked for when they are read in order. */
enum ReadPolicy {
    /** One request for all bytes that follow, wherever the reads begin. */
    SEQUENTIAL,
    /** One request for all bytes until a read goes far away; then windows. */
    ADAPTIVE,
    /** Windows, which grow while they follow each other. */
    RANDOM;

    /**
     * The first known name of {@link OpenFileOptions#FS_OPTION_OPENFILE_READ_POLICY} counts;
     * without one the policy is adaptive.
     */
    static ReadPolicy of(String names) {
        for (String name : names.split(",", -1)) {
            Optional<ReadPolicy> known = ofName(name.trim());
            if (known.isPresent()) {
                return known.get();
            }
        }
        return ADAPTIVE;
    }

    private static Optional<ReadPolicy> ofName(String name) {
        return switch (name) {
            case OpenFileOptions.FS_OPTION_OPENFILE_READ_POLICY_AVRO,
                    OpenFileOptions.FS_OPTION_OPENFILE_READ_POLICY_CSV,
                    OpenFileOptions.FS_OPTION_OPENFILE_READ_POLICY_JSON,
                    OpenFileOptions.FS_OPTION_OPENFILE_READ_POLICY_SEQUENTIAL,
                    OpenFileOptions.FS_OPTION_OPENFILE_READ_POLICY_WHOLE_FILE ->
                    Optional.of(SEQUENTIAL);
            case OpenFileOptions.FS_OPTION_OPENFILE_READ_POLICY_ADAPTIVE,
                    OpenFileOptions.FS_OPTION_OPENFILE_READ_POLICY_DEFAULT ->
                    Optional.of(ADAPTIVE);
            case OpenFileOptions.FS_OPTION_OPENFILE_READ_POLICY_COLUMNAR,
                    OpenFileOptions.FS_OPTION_OPENFILE_READ_POLICY_HBASE,
                    OpenFileOptions.FS_OPTION_OPENFILE_READ_POLICY_ORC,
                    OpenFileOptions.FS_OPTION_OPENFILE_READ_POLICY_PARQUET,
                    OpenFileOptions.FS_OPTION_OPENFILE_READ_POLICY_RANDOM,
                    OpenFileOptions.FS_OPTION_OPENFILE_READ_POLICY_VECTOR ->
                    Optional.of(RANDOM);
            default -> Optional.empty();
        };
    }
}
