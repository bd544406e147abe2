package io.tidegate.hadoop;

import io.tidegate.Options;

import org.apache.hadoop.conf.Configuration;

import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * The settings of one bucket, as options of the library.
 *
 * <p>A setting {@code fs.tidegate.bucket.BUCKET.NAME} counts more than {@code fs.tidegate.NAME},
 * and both count more than a setting of S3A.
 *
 * @param engine the options of {@link io.tidegate.Tidegate#shared(Options)}
 * @param store the options of {@link io.tidegate.Tidegate#open(String, Options)}
 * @param write the options of every write
 */
record Settings(Options engine, Options store, Options write) {
    private static final String PREFIX = "fs.tidegate.";
    private static final String BUCKETS = "bucket.";

    /** The size of a file's block in bytes, by which Hadoop and Spark cut files into splits. */
    static final String BLOCK_SIZE = "block_size";

    /** Whether files have checksums. Copies between different file systems fail if they do. */
    static final String CHECKSUMS = "checksums";

    /** Whether hflush and hsync do nothing, and do not fail. */
    static final String DOWNGRADE_SYNCABLE = "downgrade_syncable";

    /** The most threads of a file system, for renames of trees, openFile and vectored reads. */
    static final String THREADS = "threads";

    /** The id of a job, of which the output directory never has had another one. */
    static final String JOB_ID = "committer.job_id";

    /** How long after its setup a job can be committed, such as {@code 12h}. */
    static final String JOB_LIFETIME = "committer.lifetime";

    /** Whether a setup completes earlier jobs of the output directory that died in their commit. */
    static final String ROLL_FORWARD = "committer.roll_forward";

    /** The settings of the file system and the committer, which the library does not have. */
    private static final Set<String> OWN =
            Set.of(
                    BLOCK_SIZE,
                    CHECKSUMS,
                    DOWNGRADE_SYNCABLE,
                    THREADS,
                    JOB_ID,
                    JOB_LIFETIME,
                    ROLL_FORWARD);

    /** The options of an engine. */
    static final Set<String> OF_ENGINE =
            Set.of(
                    "memory",
                    "slab",
                    "spool",
                    "journal",
                    "durability",
                    "journal_keep",
                    "memory_wait",
                    "bandwidth",
                    "parts_in_flight",
                    "hedge",
                    "records",
                    "owner",
                    "attempts",
                    "patience",
                    "min_rate",
                    "idle_limit",
                    "concurrency",
                    "part_size");

    /** The options of a write that hold for all files. */
    static final Set<String> OF_WRITES =
            Set.of(
                    "strategy",
                    "cache_control",
                    "content_encoding",
                    "content_disposition",
                    "content_language",
                    "content_type",
                    "expires",
                    "metadata",
                    "tags",
                    "storage_class",
                    "encryption");

    /** The options that a comma separates into several. */
    static final Set<String> REPEATED = Set.of("spool", "journal", "owner", "metadata", "tags");

    /** The options that a credential provider of Hadoop may hold. */
    private static final List<String> SECRETS =
            List.of(
                    "access_key",
                    "secret_key",
                    "session_token",
                    "token",
                    "account_key",
                    "sas",
                    "connection_string");

    /** The name of a setting of the file system. */
    static String name(String own) {
        return PREFIX + own;
    }

    /**
     * Reads the settings of a bucket.
     *
     * @throws IOException if a credential provider fails
     */
    static Settings of(Configuration conf, Dialect dialect, String bucket) throws IOException {
        Map<String, String> values = new LinkedHashMap<>();
        if (dialect == Dialect.S3) {
            s3a(conf, bucket, values);
        }
        given(conf, PREFIX, values);
        values.keySet().removeIf(name -> name.startsWith(BUCKETS) || OWN.contains(name));
        given(conf, PREFIX + BUCKETS + bucket + ".", values);
        Options engine = Options.none();
        Options store = Options.none();
        Options write = Options.none();
        for (Map.Entry<String, String> value : values.entrySet()) {
            String name = value.getKey();
            if (OF_ENGINE.contains(name)) {
                engine = and(engine, name, value.getValue());
            } else if (OF_WRITES.contains(name)) {
                write = and(write, name, value.getValue());
            } else {
                // The library refuses a name that no store has.
                store = and(store, name, value.getValue());
            }
        }
        return new Settings(engine, store, write);
    }

    private static Options and(Options options, String name, String value) {
        if (!REPEATED.contains(name)) {
            return options.and(name, value);
        }
        Options all = options;
        for (String one : value.split(",", -1)) {
            all = all.and(name, one.trim());
        }
        return all;
    }

    /** Takes all settings that begin with a prefix. */
    private static void given(Configuration conf, String prefix, Map<String, String> values)
            throws IOException {
        for (String name : conf.getPropsWithPrefix(prefix).keySet()) {
            values.put(name, conf.getTrimmed(prefix + name, ""));
        }
        for (String name : SECRETS) {
            secret(conf, prefix + name, name, values);
        }
    }

    private static void secret(
            Configuration conf, String from, String name, Map<String, String> values)
            throws IOException {
        char[] secret = conf.getPassword(from);
        if (secret != null && secret.length > 0) {
            values.put(name, new String(secret).trim());
        }
    }

    /** The settings that S3A's users have. */
    private static void s3a(Configuration conf, String bucket, Map<String, String> values)
            throws IOException {
        Map<String, String> secrets =
                Map.of(
                        "access.key", "access_key",
                        "secret.key", "secret_key",
                        "session.token", "session_token");
        for (String prefix : List.of("fs.s3a.", "fs.s3a.bucket." + bucket + ".")) {
            for (Map.Entry<String, String> secret : secrets.entrySet()) {
                secret(conf, prefix + secret.getKey(), secret.getValue(), values);
            }
        }
        String endpoint = s3a(conf, bucket, "endpoint");
        // Without an endpoint, the library finds the one of the bucket's region.
        if (!endpoint.isEmpty() && !endpoint.equals("s3.amazonaws.com")) {
            boolean isPlain = s3a(conf, bucket, "connection.ssl.enabled").equals("false");
            String scheme = isPlain ? "http://" : "https://";
            values.put("endpoint_url", endpoint.contains("://") ? endpoint : scheme + endpoint);
        }
        String region = s3a(conf, bucket, "endpoint.region");
        if (!region.isEmpty()) {
            values.put("region", region);
        }
        if (s3a(conf, bucket, "path.style.access").equals("true")) {
            values.put("addressing", "path");
        }
        if (s3a(conf, bucket, "aws.credentials.provider")
                .endsWith(".AnonymousAWSCredentialsProvider")) {
            values.put("anonymous", "true");
        }
    }

    private static String s3a(Configuration conf, String bucket, String name) {
        String general = conf.getTrimmed("fs.s3a." + name, "");
        return conf.getTrimmed("fs.s3a.bucket." + bucket + "." + name, general);
    }
}
