package io.tidegate.hadoop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.hadoop.fs.Options.CreateFileOptionKeys;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathIOException;
import org.apache.hadoop.fs.RemoteIterator;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.locks.LockSupport;

/** What the file system has below the work path of an attempt. */
class AttemptFilesTest {
    private final TestJob job = new TestJob().setUp();
    private final FileSystem fs = job.fs();
    private final TestJob.Attempt attempt = job.attempt(0, 0);

    AttemptFilesTest() throws IOException {}

    @AfterEach
    void giveUp() throws IOException {
        job.abort();
    }

    private List<Path> paths(String... names) throws IOException {
        List<Path> paths = new ArrayList<>();
        for (String name : names) {
            paths.add(attempt.path(name));
        }
        return paths;
    }

    /** Spark counts the bytes of a file that was closed. */
    @Test
    void aClosedFileHasItsLength() throws IOException {
        FSDataOutputStream out = attempt.create("a/part-0");
        out.writeBytes("12345");
        assertThrows(FileNotFoundException.class, () -> fs.getFileStatus(attempt.path("a/part-0")));
        out.close();
        FileStatus status = fs.getFileStatus(attempt.path("a/part-0"));
        assertEquals(5, status.getLen());
        assertTrue(status.isFile());
        assertTrue(status.getModificationTime() > 0);
        assertEquals(attempt.path("a/part-0"), status.getPath());
        assertTrue(fs.getFileStatus(attempt.path("a")).isDirectory());
        assertTrue(fs.getFileStatus(attempt.committer.getWorkPath()).isDirectory());
        assertFalse(fs.exists(attempt.path("b")));
        assertFalse(fs.exists(attempt.path("a/part")));
    }

    @Test
    void listingsHaveTheClosedFiles() throws IOException {
        attempt.write("a/one", "1");
        attempt.write("a/b/two", "22");
        attempt.write("three", "333");
        attempt.create("open");
        Path root = attempt.committer.getWorkPath();
        assertEquals(paths("a", "three"), listed(fs.listStatus(root)));
        assertEquals(paths("a/b", "a/one"), listed(fs.listStatus(attempt.path("a"))));
        assertEquals(paths("three"), listed(fs.listStatus(attempt.path("three"))));
        List<Path> all = new ArrayList<>();
        RemoteIterator<LocatedFileStatus> files = fs.listFiles(root, true);
        while (files.hasNext()) {
            all.add(files.next().getPath());
        }
        assertEquals(paths("a/b/two", "a/one", "three"), all);
        assertEquals(6, fs.getContentSummary(root).getLength());
        assertEquals(3, fs.getContentSummary(root).getFileCount());
        assertThrows(FileNotFoundException.class, () -> fs.listStatus(attempt.path("b")));
    }

    private static List<Path> listed(FileStatus[] statuses) {
        return Arrays.stream(statuses).map(FileStatus::getPath).toList();
    }

    /** Neighbours in the order of keys. */
    @Test
    void aDirectoryHasWhatIsBelowItAlone() throws IOException {
        for (String name : List.of("a", "a-b", "a/b", "a/c/d", "a0", "b/c")) {
            attempt.write(name, "text");
        }
        Path root = attempt.committer.getWorkPath();
        assertTrue(fs.getFileStatus(attempt.path("a")).isFile());
        assertEquals(paths("a"), listed(fs.listStatus(attempt.path("a"))));
        assertEquals(paths("a/c/d"), listed(fs.listStatus(attempt.path("a/c"))));
        assertTrue(fs.getFileStatus(attempt.path("b")).isDirectory());
        assertFalse(fs.exists(attempt.path("c")));
        assertFalse(fs.exists(attempt.path("b/c/d")));
        assertEquals(paths("a", "a-b", "a0", "b"), listed(fs.listStatus(root)));
    }

    /** What is neither a file of an attempt nor beside the job would go with the end of the job. */
    @Test
    void nothingElseIsInAWorkPath() throws IOException {
        Path work = new Path(job.out, WorkPath.WORK + job.id);
        TestStore.write(fs, new Path(job.out, "_older"), "text");
        for (String name : List.of("part-0", "files/part-0")) {
            Path path = new Path(work, name);
            refused("files/TASK/ATTEMPT", () -> fs.create(path));
            refused("end of the job", () -> fs.rename(new Path(job.out, "_older"), path));
            refused("gives the job up", () -> fs.delete(path, true));
        }
        Path settings = new Path(work, "job.json");
        refused("gives the job up", () -> fs.delete(settings, false));
        refused("unfinished job", () -> fs.rename(settings, new Path(job.out, "_settings")));
        attempt.write("part-0", "zero");
        attempt.commit();
        job.commit();
        assertEquals(Map.of("_older", "text", "part-0", "zero"), job.files());
    }

    @Test
    void attemptsDoNotSeeEachOthersFiles() throws IOException {
        attempt.write("part-0", "zero");
        TestJob.Attempt other = job.attempt(0, 1);
        assertEquals(0, fs.listStatus(other.committer.getWorkPath()).length);
        other.write("part-0", "again");
        assertEquals(4, fs.getFileStatus(attempt.path("part-0")).getLen());
        assertEquals(5, fs.getFileStatus(other.path("part-0")).getLen());
    }

    @Test
    void directoriesAreThereWithoutBeingMade() throws IOException {
        assertTrue(fs.mkdirs(attempt.path("a/b")));
        fs.createFile(attempt.path("c/d/part-0")).build().close();
        attempt.commit();
        job.commit();
        assertEquals(Map.of("c/d/part-0", ""), job.files());
    }

    @Test
    void aFileIsWrittenOnce() throws IOException {
        attempt.write("part-0", "zero");
        assertThrows(FileAlreadyExistsException.class, () -> attempt.create("part-0"));
        assertThrows(FileAlreadyExistsException.class, () -> fs.create(attempt.path("part-0")));
        attempt.create("part-1");
        assertThrows(IOException.class, () -> attempt.create("part-1"));
        assertThrows(
                FileAlreadyExistsException.class, () -> fs.create(attempt.committer.getWorkPath()));
    }

    @Test
    void aFileNeedsAnAttemptThatIsSetUp() throws IOException {
        TestJob.Attempt other = job.new Attempt(0, 1);
        PathIOException refused = assertThrows(PathIOException.class, () -> other.create("part-0"));
        assertTrue(refused.getMessage().contains("set this attempt up"), refused.getMessage());
        attempt.write("part-0", "zero");
        attempt.commit();
        assertThrows(PathIOException.class, () -> attempt.create("part-1"));
    }

    /** Spark writes so without the committer's protocol. */
    @Test
    void aFileBesideTheWorkPathIsRefused() throws IOException {
        for (String name : List.of("part-0", "a/part-0")) {
            Path path = new Path(job.out, name);
            refused("spark.sql.sources.commitProtocolClass", () -> fs.create(path));
            refused("commitProtocolClass", () -> fs.createFile(path).recursive().build());
        }
        for (String name : List.of("_metadata", ".spark-staging-1/part-0", "a/.part-0.crc")) {
            TestStore.write(fs, new Path(job.out, name), "text");
        }
        TestStore.write(fs, job.out.suffix("2/part-0"), "text");
        attempt.abort();
        TestStore.write(fs, new Path(job.out, "part-0"), "text");
    }

    /** Who closes first decides, and both threads are told of it. */
    @Test
    void anAbortAndACloseAgree() throws Exception {
        long began = System.nanoTime();
        attempt.write("first", "text");
        long longest = 2 * (System.nanoTime() - began);
        for (int number = 0; number < 40; number++) {
            String name = "part-" + number;
            FSDataOutputStream out = attempt.create(name);
            out.writeBytes("text");
            CountDownLatch begun = new CountDownLatch(1);
            Thread closing =
                    new Thread(
                            () -> {
                                begun.countDown();
                                try {
                                    out.close();
                                } catch (IOException e) {
                                    // The abort was first.
                                }
                            });
            closing.start();
            begun.await();
            LockSupport.parkNanos(longest * number / 40);
            boolean isClosed = out.abort().alreadyClosed();
            closing.join();
            assertEquals(isClosed, fs.exists(attempt.path(name)), name);
        }
        int closed = fs.listStatus(attempt.committer.getWorkPath()).length;
        // Beside the first file, some were closed, and some were aborted before.
        assertTrue(closed > 1 && closed < 41, closed + " of 41 files were closed");
        attempt.commit();
        job.commit();
        assertEquals(closed, job.files().size());
    }

    @Test
    void thereIsNoFileWithATag() {
        assertThrows(
                PathIOException.class,
                () ->
                        fs.createFile(attempt.path("part-0"))
                                .must(
                                        CreateFileOptionKeys
                                                .FS_OPTION_CREATE_CONDITIONAL_OVERWRITE_ETAG,
                                        "tag")
                                .build());
    }

    @Test
    void nothingElseIsPossibleBeforeTheCommit() throws IOException {
        attempt.write("part-0", "zero");
        Path path = attempt.path("part-0");
        refused("read", () -> fs.open(path));
        refused("read", () -> fs.openFile(path).build().get());
        refused("appended", () -> fs.append(path));
        refused("renamed", () -> fs.rename(path, attempt.path("part-1")));
        refused("renamed", () -> fs.rename(path, new Path(job.out, "part-0")));
        refused("renamed", () -> fs.rename(new Path(job.out, "older"), path));
        refused("abortTask", () -> fs.delete(path, false));
        refused("abortTask", () -> fs.delete(attempt.committer.getWorkPath(), true));
        assertFalse(fs.delete(attempt.path("missing"), false));
        attempt.commit();
        job.commit();
        assertEquals(Map.of("part-0", "zero"), job.files());
    }

    private interface Work {
        void run() throws Exception;
    }

    private static void refused(String why, Work work) {
        Exception failure = assertThrows(Exception.class, work::run);
        Throwable refused = failure instanceof PathIOException ? failure : failure.getCause();
        assertEquals(PathIOException.class, refused.getClass(), failure.toString());
        assertTrue(refused.getMessage().contains(why), refused.getMessage());
    }
}
