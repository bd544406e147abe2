package io.tidegate.hadoop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;

import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.junit.jupiter.api.Test;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.util.concurrent.CompletableFuture;
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

    private interface End {
        void of(Thread reader, FSDataInputStream in) throws IOException;
    }

    /** How a read fails that waits for the store when something ends it. */
    private Throwable failure(End end) throws Exception {
        Path path = at("held-read/file");
        TestStore.write(fs, path, new byte[100_000]);
        CompletableFuture<Integer> ended = new CompletableFuture<>();
        try (FSDataInputStream in = fs.open(path)) {
            Thread reader =
                    new Thread(
                            () -> {
                                try {
                                    ended.complete(in.read());
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
        assertInstanceOf(InterruptedIOException.class, failure((reader, in) -> reader.interrupt()));
    }

    @Test
    void aCloseEndsAReadThatWaits() throws Exception {
        assertInstanceOf(IOException.class, failure((reader, in) -> in.close()));
    }
}
