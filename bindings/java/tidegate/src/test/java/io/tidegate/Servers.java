package io.tidegate;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.util.Arrays;
import java.util.Random;
import java.util.UUID;
import java.util.stream.Stream;

/** The servers that tests/java has started, as the environment names them, and objects on them. */
final class Servers {
    private static final String[] NAMES = System.getenv("TIDEGATE_JAVA_SERVERS").split(",", -1);

    private Servers() {}

    /** A store for each server, each below a prefix of its own, and one in memory. */
    static Stream<Store> all() throws IOException {
        Store memory = Tidegate.shared().open("memory://" + UUID.randomUUID());
        return Stream.concat(Stream.of(memory), Arrays.stream(NAMES).map(Servers::unchecked));
    }

    /**
     * The embedded server, which fails for keys of certain prefixes: FAULTS in
     * tests/java/test_java.py.
     */
    static Store embedded() throws IOException {
        return open("embedded", "");
    }

    /** A bucket that the embedded server does not have. */
    static Store missing() throws IOException {
        return open("embedded", "-not-there");
    }

    /** The embedded server, asked at most twice. */
    static Store impatient() throws IOException {
        return open(Tidegate.shared(Options.of("attempts", "2")), "embedded", "");
    }

    private static Store unchecked(String name) {
        try {
            return open(name, "/" + UUID.randomUUID());
        } catch (IOException e) {
            throw new AssertionError(e);
        }
    }

    private static Store open(String name, String prefix) throws IOException {
        return open(Tidegate.shared(), name, prefix);
    }

    private static Store open(Tidegate tide, String name, String prefix) throws IOException {
        String[] of =
                System.getenv("TIDEGATE_JAVA_" + name.toUpperCase(java.util.Locale.ROOT))
                        .split(" ", -1);
        Options options =
                Options.of("endpoint_url", of[0])
                        .and("access_key", of[1])
                        .and("secret_key", of[2])
                        .and("region", "us-east-1");
        return tide.open("s3://" + of[3] + prefix, options);
    }

    /** Bytes that do not compress, the same for the same count. */
    static byte[] bytes(int count) {
        byte[] bytes = new byte[count];
        new Random(count).nextBytes(bytes);
        return bytes;
    }

    /** Fails unless a call fails with this kind of failure, and gives the failure. */
    static TidegateException fails(
            TidegateException.Kind kind, org.junit.jupiter.api.function.Executable call) {
        TidegateException failure =
                org.junit.jupiter.api.Assertions.assertThrows(TidegateException.class, call);
        assertEquals(kind, failure.kind(), failure.getMessage());
        return failure;
    }
}
