package io.tidegate.hadoop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.tidegate.TidegateException;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathIOException;
import org.junit.jupiter.api.Test;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.io.UncheckedIOException;
import java.nio.channels.AsynchronousCloseException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;

/** A store that fails for some keys: FAULTS in tests/java/test_hadoop.py. */
class StoreFaults {
    private final FileSystem fs = TestStore.fileSystem("fs.tidegate.attempts", "2");

    StoreFaults() throws IOException {}

    private static Path at(String below) {
        return new Path(TestStore.uri().resolve("/" + below));
    }

    @Test
    void aCloseThatFailedFailsAgain() throws IOException {
        Path path = at("refused-write/small");
        FSDataOutputStream out = fs.create(path);
        out.write(1);
        assertThrows(IOException.class, out::close);
        assertThrows(IOException.class, out::close);
        assertFalse(fs.exists(path));
    }

    @Test
    void afterAWriteThatFailedTheCloseFailsToo() throws IOException {
        Path path = at("refused-write/large");
        FSDataOutputStream out = fs.create(path);
        assertThrows(
                IOException.class,
                () -> {
                    while (true) {
                        out.write(new byte[1 << 20]);
                    }
                });
        assertThrows(IOException.class, out::close);
        assertThrows(IOException.class, out::close);
        assertFalse(fs.exists(path));
    }

    @Test
    void aRenameWhoseCopyFailsLeavesTheSourceWhole() throws IOException {
        for (int number = 0; number < 10; number++) {
            TestStore.write(fs, at("refused-copy/old/" + number), "text " + number);
        }
        assertThrows(
                IOException.class, () -> fs.rename(at("refused-copy/old"), at("refused-copy/new")));
        for (int number = 0; number < 10; number++) {
            assertEquals("text " + number, TestStore.text(fs, at("refused-copy/old/" + number)));
        }
        // A second rename moves the source to the target, not into it.
        assertFalse(fs.exists(at("refused-copy/new")));
    }

    private CompletableFuture<Boolean> renamed(Path from, Path to) {
        return CompletableFuture.supplyAsync(
                () -> {
                    try {
                        return fs.rename(from, to);
                    } catch (IOException e) {
                        throw new CompletionException(e);
                    }
                });
    }

    private void await(Path path) throws IOException {
        while (!fs.exists(path)) {
            Thread.onSpinWait();
        }
    }

    /** Writes three files, of which the copy of the first takes longer than those of the others. */
    private void writeThree(String directory) throws IOException {
        for (int number = 0; number < 3; number++) {
            TestStore.write(fs, at(directory + "/old/" + number), "text " + number);
        }
    }

    private void assertThree(String directory) throws IOException {
        for (int number = 0; number < 3; number++) {
            assertEquals("text " + number, TestStore.text(fs, at(directory + "/" + number)));
        }
        assertEquals(3, fs.listStatus(at(directory)).length);
    }

    @Test
    void aRenameDeletesNothingThatItHasNotCopied() throws Exception {
        writeThree("late-copy");
        CompletableFuture<Boolean> renamed = renamed(at("late-copy/old"), at("late-copy/new"));
        await(at("late-copy/new/1"));
        TestStore.write(fs, at("late-copy/old/1"), "replaced");
        TestStore.write(fs, at("late-copy/old/late"), "new");
        Throwable failure = assertThrows(ExecutionException.class, renamed::get).getCause();
        assertInstanceOf(PathIOException.class, failure);
        assertEquals("replaced", TestStore.text(fs, at("late-copy/old/1")));
        assertEquals("new", TestStore.text(fs, at("late-copy/old/late")));
        assertEquals(2, fs.listStatus(at("late-copy/old")).length);
        assertThree("late-copy/new");
    }

    @Test
    void aRenameThatIsInterruptedTakesBackItsCopies() throws Exception {
        writeThree("interrupted-copy");
        CompletableFuture<IOException> failed = new CompletableFuture<>();
        Thread renaming =
                new Thread(
                        () ->
                                failed.complete(
                                        assertThrows(
                                                IOException.class,
                                                () ->
                                                        fs.rename(
                                                                at("interrupted-copy/old"),
                                                                at("interrupted-copy/new")))));
        renaming.start();
        await(at("interrupted-copy/new/2"));
        renaming.interrupt();
        IOException failure = failed.get(60, TimeUnit.SECONDS);
        assertInstanceOf(InterruptedIOException.class, failure);
        assertEquals(0, failure.getSuppressed().length);
        assertFalse(fs.exists(at("interrupted-copy/new")));
        assertThree("interrupted-copy/old");
    }

    @Test
    void aRenameReplacesNoFileThatCameToItsTargetMeanwhile() throws Exception {
        writeThree("taken-copy");
        CompletableFuture<Boolean> renamed = renamed(at("taken-copy/old"), at("taken-copy/new"));
        await(at("taken-copy/new/1"));
        TestStore.write(fs, at("taken-copy/new/0"), "other");
        Throwable failure = assertThrows(ExecutionException.class, renamed::get).getCause();
        assertInstanceOf(FileAlreadyExistsException.class, failure);
        assertEquals("other", TestStore.text(fs, at("taken-copy/new/0")));
        assertEquals(1, fs.listStatus(at("taken-copy/new")).length);
        assertThree("taken-copy/old");
    }

    @Test
    void aRenameToAnotherBucketReplacesNothingEither() throws Exception {
        String bucket = TestStore.uri().getAuthority();
        Path from = new Path("tg://s3/" + bucket + "/across-copy/old/0");
        Path to = new Path("tg://s3/" + bucket + "-2/across-copy/new/0");
        try (FileSystem tg =
                FileSystem.newInstance(from.toUri(), TestStore.configure(new Configuration()))) {
            TestStore.write(tg, from, "text");
            tg.mkdirs(to.getParent());
            CompletableFuture<Throwable> failed = new CompletableFuture<>();
            TestStore.control("DELETE", "counts", "");
            new Thread(
                            () ->
                                    failed.complete(
                                            assertThrows(
                                                    IOException.class, () -> tg.rename(from, to))))
                    .start();
            while (!TestStore.control("GET", "counts", "").contains("Copy")) {
                Thread.onSpinWait();
            }
            TestStore.write(tg, to, "other");
            assertInstanceOf(FileAlreadyExistsException.class, failed.get(60, TimeUnit.SECONDS));
            assertEquals("other", TestStore.text(tg, to));
            assertEquals("text", TestStore.text(tg, from));
            assertTrue(tg.delete(to, false));
            assertTrue(tg.rename(from, to));
            assertEquals("text", TestStore.text(tg, to));
            assertFalse(tg.exists(from));
        }
    }

    /** Deletes are by keys: what is deleted must have been listed just before. */
    @Test
    void aRenameListsAPageAfterItHasDeletedTheOneBefore() throws Exception {
        Path root = TestStore.directory();
        List<Path> paths = new ArrayList<>();
        for (int number = 0; number <= 1000; number++) {
            paths.add(new Path(root, "old/" + (1000 + number)));
        }
        paths.parallelStream()
                .forEach(
                        path -> {
                            try {
                                TestStore.write(fs, path, "text");
                            } catch (IOException e) {
                                throw new UncheckedIOException(e);
                            }
                        });
        String before = TestStore.control("GET", "knobs", "");
        String late =
                "\"faults\":[{\"operation\":\"DeleteObjects\",\"action\":{\"delay_ms\":5000}},";
        String knobs = before.replaceFirst("\"faults\"\\s*:\\s*\\[", late);
        assertNotEquals(before, knobs);
        Path last = paths.get(1000);
        TestStore.control("PUT", "knobs", knobs);
        try {
            TestStore.control("DELETE", "counts", "");
            CompletableFuture<Boolean> renamed =
                    renamed(new Path(root, "old"), new Path(root, "new"));
            while (!TestStore.control("GET", "counts", "").contains("DeleteObjects")) {
                assertFalse(renamed.isDone());
                Thread.sleep(10);
            }
            TestStore.write(fs, last, "replaced");
            Throwable failure = assertThrows(ExecutionException.class, renamed::get).getCause();
            assertInstanceOf(PathIOException.class, failure);
        } finally {
            TestStore.control("PUT", "knobs", before);
        }
        assertEquals("replaced", TestStore.text(fs, last));
        assertEquals(1, fs.listStatus(new Path(root, "old")).length);
        assertEquals(1001, fs.listStatus(new Path(root, "new")).length);
    }

    private interface Read {
        void from(FSDataInputStream in) throws IOException;
    }

    private interface End {
        void of(Thread reader, FSDataInputStream in) throws IOException;
    }

    private FSDataInputStream open(String below) throws IOException {
        TestStore.write(fs, at(below), new byte[100_000]);
        return fs.open(at(below));
    }

    /** How a read fails that waits for the store when something ends it. */
    private static Throwable failure(FSDataInputStream in, Read read, End end) throws Exception {
        CompletableFuture<Void> ended = new CompletableFuture<>();
        Thread reader =
                new Thread(
                        () -> {
                            try {
                                read.from(in);
                                ended.complete(null);
                            } catch (IOException e) {
                                ended.completeExceptionally(e);
                            }
                        });
        reader.start();
        while (reader.getState() != Thread.State.WAITING) {
            Thread.onSpinWait();
        }
        end.of(reader, in);
        return assertThrows(ExecutionException.class, () -> ended.get(60, TimeUnit.SECONDS))
                .getCause();
    }

    @Test
    void anInterruptEndsAReadThatWaits() throws Exception {
        try (FSDataInputStream in = open("held-read/interrupted")) {
            assertInstanceOf(
                    InterruptedIOException.class,
                    failure(in, FSDataInputStream::read, (reader, of) -> reader.interrupt()));
        }
    }

    @Test
    void aCloseEndsAReadAtAPosition() throws Exception {
        try (FSDataInputStream in = open("held-read/closed")) {
            assertInstanceOf(
                    AsynchronousCloseException.class,
                    failure(
                            in,
                            from -> from.readFully(0, new byte[1]),
                            (reader, of) -> of.close()));
        }
    }

    @Test
    void aCloseEndsAReadInOrderThatWaitsForMoreBytes() throws Exception {
        try (FSDataInputStream in = open("stalled-read/closed")) {
            assertEquals(0, in.read());
            assertInstanceOf(
                    AsynchronousCloseException.class,
                    failure(
                            in,
                            from -> from.readFully(new byte[99_999]),
                            (reader, of) -> of.close()));
        }
    }

    /** The last bytes stay away, because many readers ask for no byte after them. */
    @Test
    void aReadOfTheWholeFileIsComparedWithTheChecksumOfTheStore() throws Exception {
        for (int length : new int[] {100_000, 1}) {
            try (FSDataInputStream in = open("corrupt-read/" + length)) {
                TidegateException failure =
                        assertThrows(
                                TidegateException.class,
                                () -> {
                                    for (int read = 0; read < 100_000; read += length) {
                                        in.readFully(new byte[length]);
                                    }
                                });
                assertEquals(TidegateException.Kind.INTEGRITY, failure.kind());
            }
        }
    }
}
