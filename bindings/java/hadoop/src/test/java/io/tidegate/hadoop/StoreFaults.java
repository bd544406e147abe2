package io.tidegate.hadoop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;

import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathIOException;
import org.junit.jupiter.api.Test;

import java.io.IOException;
import java.io.InterruptedIOException;
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
    }

    /** The copy of one file takes long enough for the others to be replaced. */
    @Test
    void aRenameDeletesNothingThatItHasNotCopied() throws Exception {
        for (int number = 0; number < 3; number++) {
            TestStore.write(fs, at("late-copy/old/" + number), "text " + number);
        }
        CompletableFuture<Boolean> renamed =
                CompletableFuture.supplyAsync(
                        () -> {
                            try {
                                return fs.rename(at("late-copy/old"), at("late-copy/new"));
                            } catch (IOException e) {
                                throw new CompletionException(e);
                            }
                        });
        while (!fs.exists(at("late-copy/new/1"))) {
            Thread.onSpinWait();
        }
        TestStore.write(fs, at("late-copy/old/1"), "replaced");
        TestStore.write(fs, at("late-copy/old/late"), "new");
        Throwable failure = assertThrows(ExecutionException.class, renamed::get).getCause();
        assertInstanceOf(PathIOException.class, failure);
        assertEquals("replaced", TestStore.text(fs, at("late-copy/old/1")));
        assertEquals("new", TestStore.text(fs, at("late-copy/old/late")));
        assertEquals(2, fs.listStatus(at("late-copy/old")).length);
        for (int number = 0; number < 3; number++) {
            assertEquals("text " + number, TestStore.text(fs, at("late-copy/new/" + number)));
        }
    }

    private interface Read {
        int from(FSDataInputStream in) throws IOException;
    }

    private interface End {
        void of(Thread reader, FSDataInputStream in) throws IOException;
    }

    /** How a read fails that waits for the store when something ends it. */
    private Throwable failure(Read read, End end) throws Exception {
        Path path = at("held-read/file");
        TestStore.write(fs, path, new byte[100_000]);
        CompletableFuture<Integer> ended = new CompletableFuture<>();
        try (FSDataInputStream in = fs.open(path)) {
            Thread reader =
                    new Thread(
                            () -> {
                                try {
                                    ended.complete(read.from(in));
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
    }

    @Test
    void anInterruptEndsAReadThatWaits() throws Exception {
        assertInstanceOf(
                InterruptedIOException.class,
                failure(FSDataInputStream::read, (reader, in) -> reader.interrupt()));
    }

    @Test
    void aCloseEndsAReadThatWaits() throws Exception {
        assertInstanceOf(
                IOException.class,
                failure(in -> in.read(0, new byte[1], 0, 1), (reader, in) -> in.close()));
    }
}
