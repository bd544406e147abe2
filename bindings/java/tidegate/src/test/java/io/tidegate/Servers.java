package io.tidegate;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.Arrays;
import java.util.Locale;
import java.util.Random;
import java.util.UUID;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
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

    /** Those of {@link #all}, and the embedded server in Google's dialect over both transports. */
    static Stream<Store> withGoogle() throws IOException {
        return Stream.concat(all(), Stream.of("http", "grpc").map(Servers::unchecked));
    }

    /** What the embedded server has counted since it was asked last, as JSON. */
    record Counts(String json) {
        /** How many of these operations are {@code requests}, or {@code failed}. */
        long of(String what, String... operations) {
            int start = json.indexOf('"' + what + '"');
            String section = json.substring(start, json.indexOf('}', start));
            long sum = 0;
            for (String name : operations) {
                Matcher count = Pattern.compile('"' + name + "\":\\s*(\\d+)").matcher(section);
                sum += count.find() ? Long.parseLong(count.group(1)) : 0;
            }
            return sum;
        }
    }

    /** Takes the counts of the embedded server, which begins anew. */
    static Counts counts() throws Exception {
        URI counts = URI.create(said("embedded")[0] + "/_tidegate/counts");
        HttpRequest request = HttpRequest.newBuilder(counts).DELETE().build();
        HttpResponse.BodyHandler<String> text = HttpResponse.BodyHandlers.ofString();
        return new Counts(HttpClient.newHttpClient().send(request, text).body());
    }

    private static String[] said(String name) {
        return System.getenv("TIDEGATE_JAVA_" + name.toUpperCase(Locale.ROOT)).split(" ", -1);
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

    static Store open(String name, String prefix) throws IOException {
        return open(Tidegate.shared(), name, prefix);
    }

    /**
     * A server by its name: {@code embedded}, {@code minio}, or the embedded one in Google's
     * dialect, over {@code http} or {@code grpc}.
     */
    static Store open(Tidegate tide, String name, String prefix) throws IOException {
        boolean isGoogle = name.equals("http") || name.equals("grpc");
        String[] of = said(isGoogle ? "embedded" : name);
        Options options = Options.of("endpoint_url", of[0]);
        if (isGoogle) {
            options = options.and("anonymous", "true").and("transport", name);
            return tide.open("gs://" + of[3] + prefix, options);
        }
        options = options.and("access_key", of[1]).and("secret_key", of[2]);
        return tide.open("s3://" + of[3] + prefix, options.and("region", "us-east-1"));
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
