package io.tidegate.hadoop;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.util.Random;
import java.util.UUID;

/** The store that tests/java/test_hadoop.py has started, as the environment names it. */
final class TestStore {
    private TestStore() {}

    /** The URI of an empty bucket. */
    static URI uri() {
        return URI.create(System.getenv("TIDEGATE_HADOOP_URI"));
    }

    /** The name of the bucket, which on Azure is the container. */
    static String bucket() {
        return uri().getAuthority().split("@", -1)[0];
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

    /** The file system, as a user of Hadoop gets it. */
    static FileSystem fileSystem() throws IOException {
        return FileSystem.get(uri(), configure(new Configuration()));
    }

    /** The same with more settings: names, each with its value. */
    static FileSystem fileSystem(String... settings) throws IOException {
        Configuration conf = configure(new Configuration());
        for (int index = 0; index < settings.length; index += 2) {
            conf.set(settings[index], settings[index + 1]);
        }
        return FileSystem.newInstance(uri(), conf);
    }

    /** Asks the embedded server for what it has counted, or for what goes wrong, or sets that. */
    static String control(String method, String what, String json)
            throws IOException, InterruptedException {
        String server = configure(new Configuration()).get("fs.s3a.endpoint");
        HttpRequest request =
                HttpRequest.newBuilder(URI.create("http://" + server + "/_tidegate/" + what))
                        .header("Content-Type", "application/json")
                        .method(method, HttpRequest.BodyPublishers.ofString(json))
                        .build();
        HttpResponse<String> response =
                HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
        if (response.statusCode() / 100 != 2) {
            throw new IOException(response.statusCode() + ": " + response.body());
        }
        return response.body();
    }

    /** A directory that nothing else uses, and that is not there. */
    static Path directory() {
        return new Path(uri().resolve("/" + UUID.randomUUID()));
    }

    /** Writes a file whole. */
    static void write(FileSystem fs, Path path, byte[] bytes) throws IOException {
        try (FSDataOutputStream out = fs.create(path)) {
            out.write(bytes);
        }
    }

    static void write(FileSystem fs, Path path, String text) throws IOException {
        write(fs, path, text.getBytes(StandardCharsets.UTF_8));
    }

    static byte[] read(FileSystem fs, Path path) throws IOException {
        try (FSDataInputStream in = fs.open(path)) {
            return in.readAllBytes();
        }
    }

    static String text(FileSystem fs, Path path) throws IOException {
        return new String(read(fs, path), StandardCharsets.UTF_8);
    }

    /** Bytes that do not compress, the same for the same count. */
    static byte[] bytes(int count) {
        byte[] bytes = new byte[count];
        new Random(count).nextBytes(bytes);
        return bytes;
    }
}
