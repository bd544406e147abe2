package io.tidegate.hadoop;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileRange;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.hadoop.fs.Options.OpenFileOptions;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.junit.jupiter.api.Test;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** How many requests calls make, as the embedded server counts them. */
class StoreRequests {
    private final HttpClient client = HttpClient.newHttpClient();
    private final FileSystem fs = TestStore.fileSystem();
    private final Path root = TestStore.directory();

    StoreRequests() throws IOException {}

    private interface Work {
        void run() throws Exception;
    }

    private String counts(String method) throws Exception {
        URI uri = URI.create("http://" + fs.getConf().get("fs.s3a.endpoint") + "/_tidegate/counts");
        HttpRequest request =
                HttpRequest.newBuilder(uri)
                        .method(method, HttpRequest.BodyPublishers.noBody())
                        .build();
        return client.send(request, HttpResponse.BodyHandlers.ofString()).body();
    }

    private void assertRequests(Map<String, Integer> expected, Work work) throws Exception {
        counts("DELETE");
        work.run();
        String requests =
                counts("GET").replaceFirst("(?s).*\"requests\"\\s*:\\s*\\{([^}]*)}.*", "$1");
        Map<String, Integer> made = new TreeMap<>();
        Matcher one = Pattern.compile("\"(\\w+)\"\\s*:\\s*(\\d+)").matcher(requests);
        while (one.find()) {
            made.put(one.group(1), Integer.valueOf(one.group(2)));
        }
        assertEquals(new TreeMap<>(expected), made);
    }

    private Path at(String below) {
        return new Path(root, below);
    }

    @Test
    void aSmallFile() throws Exception {
        assertRequests(
                Map.of("ListObjectsV2", 1, "PutObject", 1),
                () -> TestStore.write(fs, at("file"), "text"));
        assertRequests(
                Map.of("HeadObject", 1, "ListObjectsV2", 1, "PutObject", 1),
                () -> fs.create(at("new"), false).close());
        assertRequests(Map.of("HeadObject", 1), () -> fs.getFileStatus(at("file")));
        assertRequests(
                Map.of("HeadObject", 1, "GetObject", 1), () -> TestStore.read(fs, at("file")));
    }

    @Test
    void aFileThatIsKnownFromAListing() throws Exception {
        TestStore.write(fs, at("file"), TestStore.bytes(1 << 20));
        FileStatus[] known = new FileStatus[1];
        assertRequests(Map.of("ListObjectsV2", 1), () -> known[0] = fs.listStatus(root)[0]);
        List<FileRange> ranges =
                List.of(FileRange.createFileRange(10, 10), FileRange.createFileRange(1000, 10));
        assertRequests(
                Map.of("GetObject", 1),
                () -> {
                    try (FSDataInputStream in =
                            fs.openFile(at("file")).withFileStatus(known[0]).build().get()) {
                        in.readVectored(ranges, ByteBuffer::allocate);
                        ranges.get(1).getData().get();
                    }
                });
    }

    private void read(String policy, int from) throws Exception {
        try (FSDataInputStream in =
                fs.openFile(at("file"))
                        .must(OpenFileOptions.FS_OPTION_OPENFILE_READ_POLICY, policy)
                        .build()
                        .get()) {
            in.seek(from);
            in.readAllBytes();
        }
    }

    @Test
    void policiesOfReads() throws Exception {
        TestStore.write(fs, at("file"), TestStore.bytes(1 << 20));
        Map<String, Integer> ahead = Map.of("HeadObject", 1, "GetObject", 1);
        assertRequests(ahead, () -> read("sequential", 0));
        assertRequests(ahead, () -> read("adaptive", 0));
        // Windows of 64, 128, 256, 512 and the last 64 KiB.
        assertRequests(Map.of("HeadObject", 1, "GetObject", 5), () -> read("random", 0));
        // Windows of 64, 128, 256 and the last 64 KiB.
        assertRequests(Map.of("HeadObject", 1, "GetObject", 4), () -> read("adaptive", 512 << 10));
    }

    @Test
    void oneReadOfManyBytes() throws Exception {
        TestStore.write(fs, at("file"), TestStore.bytes(1 << 20));
        assertRequests(
                Map.of("HeadObject", 1, "GetObject", 1),
                () -> {
                    try (FSDataInputStream in = fs.open(at("file"))) {
                        in.seek(1000);
                        in.readFully(new byte[1_000_000]);
                    }
                });
    }

    @Test
    void aTree() throws Exception {
        for (int number = 0; number < 50; number++) {
            TestStore.write(fs, at("tree/d" + number % 5 + "/e/" + number), "text");
        }
        TestStore.write(fs, at("other"), "text");
        assertRequests(
                Map.of("ListObjectsV2", 1),
                () -> {
                    RemoteIterator<LocatedFileStatus> files = fs.listFiles(root, true);
                    while (files.hasNext()) {
                        files.next();
                    }
                });
        assertRequests(Map.of("ListObjectsV2", 1), () -> fs.getContentSummary(root));
        assertRequests(
                Map.of("HeadObject", 1, "ListObjectsV2", 2, "DeleteObjects", 1),
                () -> fs.delete(at("tree"), true));
    }
}
