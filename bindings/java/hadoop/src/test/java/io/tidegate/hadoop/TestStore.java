package io.tidegate.hadoop;

import org.apache.hadoop.conf.Configuration;

import java.net.URI;

/** The store that tests/java/test_hadoop.py has started, as the environment names it. */
final class TestStore {
    private TestStore() {}

    /** The URI of an empty bucket. */
    static URI uri() {
        return URI.create(System.getenv("TIDEGATE_HADOOP_URI"));
    }

    /** Sets what is needed to reach it: {@code NAME=VALUE}, one a line. */
    static Configuration configure(Configuration conf) {
        System.getenv("TIDEGATE_HADOOP_SETTINGS")
                .lines()
                .forEach(
                        line -> {
                            int end = line.indexOf('=');
                            conf.set(line.substring(0, end), line.substring(end + 1));
                        });
        return conf;
    }
}
