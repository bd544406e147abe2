package io.tidegate;

import static io.tidegate.Servers.bytes;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

import java.io.IOException;
import java.io.InputStream;
import java.io.InterruptedIOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.channels.AsynchronousCloseException;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.WritableByteChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;

/**
 * The embedded server carries out requests for keys that begin with {@code hold-}, and never
 * answers.
 */
class InterruptTest {
    private static final byte[] PART = bytes(12 << 20);

    private interface Call {
        void run() throws Exception;
    }

    /** Opens what a call is of. Opening waits too, so the call begins after it. */
    private interface Prepared {
        Call call() throws Exception;
    }

    /** How a call that waits for the server has ended, and after how many milliseconds. */
    private record Ended(Throwable failure, boolean isInterrupted, long millis) {}

    /** Begins a call, waits until it waits, and does something to it. */
    private static Ended ended(Call call, java.util.function.Consumer<Thread> disturb)
            throws Exception {
        CompletableFuture<Ended> ended = new CompletableFuture<>();
        Thread thread =
                new Thread(
                        () -> {
                            Throwable failure = null;
                            try {
                                call.run();
                            } catch (Throwable e) {
                                failure = e;
                            }
                            ended.complete(
                                    new Ended(
                                            failure,
                                            Thread.currentThread().isInterrupted(),
                                            System.nanoTime()));
                        });
        thread.start();
        while (thread.getState() != Thread.State.WAITING) {
            assertTrue(thread.isAlive(), "the call has ended before it waited");
            thread.join(1);
        }
        long began = System.nanoTime();
        disturb.accept(thread);
        Ended at = ended.get(60, TimeUnit.SECONDS);
        return new Ended(
                at.failure, at.isInterrupted, TimeUnit.NANOSECONDS.toMillis(at.millis - began));
    }

    /**
     * Fails unless an interrupt ends the call as this exception, within 100 ms if the machine lets
     * it.
     */
    private static void interrupted(Class<? extends IOException> type, Prepared... calls)
            throws Exception {
        for (Prepared prepared : calls) {
            long soonest = Long.MAX_VALUE;
            // A busy machine may hold up a thread: the soonest of several counts.
            for (int tries = 0; soonest > 100 && tries < 20; tries++) {
                Ended ended = ended(prepared.call(), Thread::interrupt);
                assertEquals(type, ended.failure == null ? null : ended.failure.getClass());
                assertTrue(ended.isInterrupted, "the thread stays interrupted");
                soonest = Math.min(soonest, ended.millis);
            }
            assertTrue(soonest <= 100, "it took " + soonest + " ms");
        }
    }

    @Test
    void callsOfStores(@TempDir Path folder) throws Exception {
        Path file = Files.write(folder.resolve("from"), new byte[1]);
        Store store = Servers.embedded();
        store.put("hold-get", PART);
        store.put("hold-head", PART);
        interrupted(
                InterruptedIOException.class,
                () -> () -> store.put("hold-put", new byte[1]),
                () -> () -> store.get("hold-get"),
                () -> () -> store.stat("hold-head"),
                () -> () -> store.exists("hold-head"),
                () -> () -> store.find("hold-head"),
                () -> () -> store.deleteAll(List.of("hold-delete")),
                () -> () -> store.upload(file, "hold-put"),
                () -> () -> store.download("hold-get", file.resolveSibling("to")),
                () -> () -> store.reader("hold-get"));
    }

    @Test
    void writersStreamsAndChannels() throws Exception {
        Store store = Servers.embedded();
        interrupted(
                InterruptedIOException.class,
                () -> {
                    Writer writer = store.writer("hold-part");
                    return () -> {
                        while (true) {
                            writer.write(PART);
                        }
                    };
                },
                () -> {
                    OutputStream stream = store.writer("hold-part").asOutputStream();
                    return () -> {
                        while (true) {
                            stream.write(PART);
                        }
                    };
                },
                () -> {
                    Writer writer = store.writer("hold-put");
                    return writer::finish;
                },
                () -> {
                    Writer writer = store.writer("hold-part");
                    writer.write(new byte[1]);
                    return writer::prepare;
                },
                () -> {
                    List<Writer> writers = List.of(store.writer("hold-part"));
                    return () -> store.prepareAll("set", writers);
                });
        interrupted(
                ClosedByInterruptException.class,
                () -> {
                    WritableByteChannel channel = store.writer("hold-part").asChannel();
                    return () -> {
                        while (true) {
                            channel.write(ByteBuffer.wrap(PART));
                        }
                    };
                });
        assertFalse(store.exists("hold-part"));
    }

    @Test
    void writersOfTasks() throws Exception {
        Job job = Job.of(Servers.embedded(), "interrupted");
        job.setUp();
        TaskAttempt attempt = job.attempt("t0", "t0-0");
        interrupted(
                InterruptedIOException.class,
                () -> {
                    TaskWriter writer = attempt.writer("hold-part");
                    return () -> {
                        while (true) {
                            writer.write(PART);
                        }
                    };
                },
                () -> {
                    TaskWriter writer = attempt.writer("hold-part");
                    writer.write(new byte[1]);
                    return writer::finish;
                });
        TaskWriter writer = attempt.writer("hold-part");
        writer.write(new byte[1]);
        Ended finish = ended(writer::finish, thread -> closed(writer));
        assertEquals(AsynchronousCloseException.class, finish.failure.getClass());
        attempt.commit();
        assertEquals(0, job.commit().objects());
    }

    @Test
    void readers() throws Exception {
        Store store = Servers.embedded();
        ObjectInfo object = store.put("hold-get", PART);
        List<Range> ranges = List.of(new Range(5, ByteBuffer.allocateDirect(10)));
        interrupted(
                ClosedByInterruptException.class,
                () -> {
                    Reader reader = store.reader(object);
                    return () -> reader.read(ByteBuffer.allocate(10));
                },
                () -> {
                    Reader reader = store.reader(object);
                    return () -> reader.read(5, ByteBuffer.allocateDirect(10));
                },
                () -> {
                    Reader reader = store.reader(object);
                    return () -> reader.readRanges(ranges);
                });
        interrupted(
                InterruptedIOException.class,
                () -> {
                    InputStream stream = store.reader(object).asInputStream();
                    return stream::read;
                });
    }

    @Test
    void anInterruptedChannelHasFailed() throws Exception {
        Store store = Servers.embedded();
        WritableByteChannel channel = store.writer("interrupted-before").asChannel();
        Thread.currentThread().interrupt();
        assertThrows(ClosedByInterruptException.class, () -> channel.write(ByteBuffer.allocate(1)));
        assertTrue(Thread.interrupted());
        assertFalse(channel.isOpen());
        assertThrows(IOException.class, channel::close);
        Reader reader = store.reader(store.put("interrupted-read", PART));
        Thread.currentThread().interrupt();
        assertThrows(ClosedByInterruptException.class, () -> reader.read(ByteBuffer.allocate(1)));
        assertTrue(Thread.interrupted());
        assertFalse(reader.isOpen());
        assertFalse(store.exists("interrupted-before"));
    }

    /** Memory takes all bytes at once, so no call waits. */
    @Test
    void aWriteThatNeverWaits() throws Exception {
        Writer writer =
                Tidegate.shared(Options.of("memory", "4GiB"))
                        .open("memory://busy")
                        .writer("a", Options.of("strategy", "put"));
        CompletableFuture<Throwable> ended = new CompletableFuture<>();
        ByteBuffer bytes = ByteBuffer.allocateDirect(64 << 20);
        Thread thread =
                new Thread(
                        () -> {
                            try {
                                for (int times = 0; times < 40; times++) {
                                    writer.write(bytes.duplicate());
                                }
                                ended.complete(null);
                            } catch (IOException e) {
                                ended.complete(e);
                            }
                        });
        thread.start();
        while (writer.position() == 0) {
            thread.join(1);
        }
        thread.interrupt();
        Throwable failure = ended.get(60, TimeUnit.SECONDS);
        assertEquals(InterruptedIOException.class, failure == null ? null : failure.getClass());
        assertTrue(writer.position() % bytes.capacity() != 0, "it ends in the middle of a write");
    }

    @Test
    void aCloseByAnotherThreadEndsACall() throws Exception {
        Store store = Servers.embedded();
        Reader reader = store.reader(store.put("hold-get", PART));
        Ended read = ended(() -> reader.read(ByteBuffer.allocate(10)), thread -> closed(reader));
        assertEquals(AsynchronousCloseException.class, read.failure.getClass());
        Writer writer = store.writer("hold-put");
        Ended finish = ended(writer::finish, thread -> closed(writer));
        assertEquals(AsynchronousCloseException.class, finish.failure.getClass());
        Writer one = store.writer("hold-part");
        List<Writer> both = List.of(one, store.writer("a"));
        Ended prepare = ended(() -> store.prepareAll("set", both), thread -> closed(one));
        assertEquals(AsynchronousCloseException.class, prepare.failure.getClass());
    }

    private static void closed(AutoCloseable closeable) {
        try {
            closeable.close();
        } catch (Exception e) {
            throw new AssertionError(e);
        }
    }

    @Test
    void writersWaitForEachOther() throws Exception {
        Store store = Tidegate.shared().open("memory://turns");
        try (Writer writer = store.writer("a")) {
            List<CompletableFuture<Void>> threads =
                    java.util.stream.IntStream.range(0, 8)
                            .mapToObj(number -> CompletableFuture.runAsync(() -> write(writer)))
                            .toList();
            for (CompletableFuture<Void> thread : threads) {
                thread.get();
            }
            assertEquals(8L * 100 * 1000, writer.finish().size().getAsLong());
        } catch (ExecutionException e) {
            throw new AssertionError(e);
        }
    }

    private static void write(Writer writer) {
        try {
            for (int times = 0; times < 100; times++) {
                writer.write(new byte[1000]);
            }
        } catch (IOException e) {
            throw new AssertionError(e);
        }
    }
}
