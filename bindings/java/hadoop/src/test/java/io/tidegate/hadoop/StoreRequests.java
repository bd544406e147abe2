package io.tidegate.hadoop;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.apache.hadoop.conf.Configuration;
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
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** How many requests calls make, as the embedded server counts them. */
class StoreRequests {
    private final FileSystem fs = TestStore.fileSystem();
    private final Path root = TestStore.directory();

    StoreRequests() throws IOException {}

    interface Work {
        void run() throws Exception;
    }

    static void assertRequests(Map<String, Integer> expected, Work work) throws Exception {
        assertEquals(new TreeMap<>(expected), requests(work));
    }

    private static Map<String, Integer> requests(Work work) throws Exception {
        TestStore.control("DELETE", "counts", "");
        work.run();
        String requests =
                TestStore.control("GET", "counts", "")
                        .replaceFirst("(?s).*\"requests\"\\s*:\\s*\\{([^}]*)}.*", "$1");
        Map<String, Integer> made = new TreeMap<>();
        Matcher one = Pattern.compile("\"(\\w+)\"\\s*:\\s*(\\d+)").matcher(requests);
        while (one.find()) {
            made.put(one.group(1), Integer.valueOf(one.group(2)));
        }
        return made;
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
                            fs.openFile(at("file")).withFileStatus(known[0]).build().getNow(null)) {
                        in.readVectored(ranges, ByteBuffer::allocate);
                        ranges.get(1).getData().get();
                    }
                });
    }

    /** A status of another bucket saves no request, and is not mistaken for the file's. */
    @Test
    void aStatusOfAnotherBucket() throws Exception {
        Path one = new Path("tg://s3/" + TestStore.bucket() + "/" + root.getName());
        Path two = new Path("tg://s3/" + TestStore.bucket() + "-2/" + root.getName());
        try (FileSystem tg =
                FileSystem.newInstance(one.toUri(), TestStore.configure(new Configuration()))) {
            TestStore.write(tg, one, "one");
            TestStore.write(tg, two, "two");
            FileStatus other = tg.getFileStatus(one);
            try (FSDataInputStream in = tg.openFile(two).withFileStatus(other).build().get()) {
                assertEquals("two", new String(in.readAllBytes(), StandardCharsets.UTF_8));
            }
        }
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
    void bytesThatWereReadAheadForASmallRead() throws Exception {
        TestStore.write(fs, at("file"), TestStore.bytes(1 << 20));
        assertRequests(
                Map.of("HeadObject", 1, "GetObject", 1),
                () -> {
                    try (FSDataInputStream in = fs.open(at("file"))) {
                        int first = in.read();
                        in.seek(100);
                        in.read();
                        in.seek(0);
                        assertEquals(first, in.read());
                    }
                });
    }

    @Test
    void readsFromTheBeginningAgain() throws Exception {
        TestStore.write(fs, at("file"), TestStore.bytes(1 << 20));
        assertRequests(
                Map.of("HeadObject", 1, "GetObject", 3),
                () -> {
                    try (FSDataInputStream in = fs.open(at("file"))) {
                        in.read();
                        in.seek(512 << 10);
                        in.readFully(new byte[128 << 10]);
                        in.seek(0);
                        in.readAllBytes();
                    }
                });
    }

    /** A bucket needs no marker to stay. */
    @Test
    void aFileInTheBucketItself() throws Exception {
        TestStore.write(fs, root, "text");
        Path renamed = root.suffix("-renamed");
        // One listing looks for a directory at the target.
        assertEquals(1, requests(() -> fs.rename(root, renamed)).get("ListObjectsV2"));
        assertRequests(Map.of("HeadObject", 1, "DeleteObject", 1), () -> fs.delete(renamed, false));
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
                Map.of("HeadObject", 1, "ListObjectsV2", 3, "DeleteObjects", 1),
                () -> fs.delete(at("tree"), true));
    }
}
