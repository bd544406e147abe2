package io.tidegate;

import static io.tidegate.Servers.bytes;
import static io.tidegate.Servers.fails;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.tidegate.TidegateException.Kind;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.AsynchronousCloseException;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.WritableByteChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

class SessionTest {
    private static final byte[] LARGE = bytes(6 << 20);
    private static final String[] SERVERS = {"memory", "embedded", "minio", "http", "grpc"};

    private static final String[] APPENDS = {
        "storage.resumable.append", "storage.v2.BidiWriteObject", "storage.v2.WriteObject"
    };
    private static final String[] QUESTIONS = {
        "storage.resumable.query", "storage.v2.QueryWriteStatus"
    };

    @TempDir Path folder;

    private WriteSessionConfig config(String name) {
        List<Path> two = List.of(folder.resolve("new/1"), folder.resolve("new/2"));
        return switch (name) {
            case "default" -> WriteSessionConfigs.getDefault();
            case "default with a chunk size" ->
                    WriteSessionConfigs.getDefault().withChunkSize(5 << 20);
            case "chunked" -> WriteSessionConfigs.chunked();
            case "disk" -> WriteSessionConfigs.bufferToDiskThenUpload(two.get(0));
            case "disks" -> WriteSessionConfigs.bufferToDiskThenUpload(two);
            case "temporary" -> WriteSessionConfigs.bufferToTempDirThenUpload();
            case "journaling" -> WriteSessionConfigs.journaling(two);
            case "parallel" -> WriteSessionConfigs.parallel();
            default -> WriteSessionConfigs.parallelCompositeUpload();
        };
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "default",
                "default with a chunk size",
                "chunked",
                "disk",
                "disks",
                "temporary",
                "journaling",
                "parallel",
                "parallelCompositeUpload"
            })
    void aCloseCompletesTheResult(String name) throws Exception {
        Tidegate tide = Tidegate.shared(Options.of("part_size", "5MiB"), config(name));
        for (String server : SERVERS) {
            Store store =
                    server.equals("memory")
                            ? tide.open("memory://sessions")
                            : Servers.open(tide, server, "/sessions");
            String key = "closed/" + name;
            WriteSession session = store.session(key, Options.of("content_type", "text/x-tide"));
            CompletableFuture<ObjectInfo> result = session.getResult();
            try (WritableByteChannel channel = session.open()) {
                assertThrows(IllegalStateException.class, session::open);
                for (int from = 0; from < LARGE.length; from += 1 << 20) {
                    assertEquals(1 << 20, channel.write(ByteBuffer.wrap(LARGE, from, 1 << 20)));
                }
                assertFalse(result.isDone());
                assertFalse(store.exists(key));
            }
            assertEquals(key, result.get(0, TimeUnit.SECONDS).key());
            assertSame(result, session.getResult());
            assertArrayEquals(LARGE, store.get(key));
            assertEquals("text/x-tide", store.stat(key).text("content_type").orElseThrow());
            session.abort();
            assertTrue(store.exists(key));
            store.delete(key);
        }
        try (Stream<Path> left = Files.walk(folder)) {
            assertEquals(List.of(), left.filter(Files::isRegularFile).toList());
        }
    }

    /** The server takes the bytes of each request, and cuts the connection before it answers. */
    @ParameterizedTest
    @ValueSource(strings = {"chunked http", "chunked grpc", "journaling http", "journaling grpc"})
    void lostAnswersAreSettledByQuestions(String names) throws Exception {
        String[] name = names.split(" ", -1);
        Tidegate tide = Tidegate.shared(Options.of("part_size", "2MiB"), config(name[0]));
        Store store = Servers.open(tide, name[1], "");
        String key = "lost-answers/" + names;
        WriteSession session = store.session(key);
        Servers.counts();
        try (WritableByteChannel channel = session.open()) {
            for (int from = 0; from < LARGE.length; from += 1 << 19) {
                channel.write(ByteBuffer.wrap(LARGE, from, 1 << 19));
            }
        }
        Servers.Counts counts = Servers.counts();
        long appends = counts.of("requests", APPENDS);
        assertTrue(appends > 0, counts::json);
        assertEquals(appends, counts.of("failed", APPENDS), counts::json);
        assertTrue(counts.of("requests", QUESTIONS) > 0, counts::json);
        assertEquals(LARGE.length, session.getResult().get().size().getAsLong());
        assertArrayEquals(LARGE, store.get(key));
    }

    @Test
    void aFailedWriteFailsTheResult() throws Exception {
        Store store = Servers.impatient();
        WriteSession session = store.session("refused-part/session");
        WritableByteChannel channel = session.open();
        TidegateException failed =
                fails(
                        Kind.UNAVAILABLE,
                        () -> {
                            while (true) {
                                channel.write(ByteBuffer.wrap(LARGE));
                            }
                        });
        assertSame(failed, failure(session));
        fails(Kind.UNAVAILABLE, () -> channel.write(ByteBuffer.wrap(LARGE)));
        fails(Kind.UNAVAILABLE, channel::close);
        fails(Kind.UNAVAILABLE, channel::close);
        assertSame(failed, failure(session));
        assertFalse(store.exists("refused-part/session"));
    }

    private static Throwable failure(WriteSession session) {
        return assertThrows(
                        ExecutionException.class,
                        () -> session.getResult().get(60, TimeUnit.SECONDS))
                .getCause();
    }

    @Test
    void aFailedCloseFailsTheResult() throws Exception {
        Store store = Servers.impatient();
        WriteSession session = store.session("refused-put/session");
        WritableByteChannel channel = session.open();
        channel.write(ByteBuffer.allocate(10));
        TidegateException failed = fails(Kind.UNAVAILABLE, channel::close);
        assertSame(failed, failure(session));
        fails(Kind.UNAVAILABLE, channel::close);
        assertFalse(store.exists("refused-put/session"));
    }

    @Test
    void aFailedOpenFailsTheResult() throws Exception {
        WriteSession session =
                Servers.embedded().session("never-opened", Options.of("memory", "1MiB"));
        assertSame(fails(Kind.INVALID_INPUT, session::open), failure(session));
        assertThrows(IllegalStateException.class, session::open);
    }

    @Test
    void anAbortPublishesNothing() throws Exception {
        Store store = Servers.embedded();
        WriteSession session = store.session("session-aborted");
        try (WritableByteChannel channel = session.open()) {
            channel.write(ByteBuffer.wrap(LARGE));
            session.abort();
            assertFalse(channel.isOpen());
            assertThrows(ClosedChannelException.class, () -> channel.write(ByteBuffer.wrap(LARGE)));
        }
        session.abort();
        assertTrue(session.getResult().isCancelled());
        assertFalse(store.exists("session-aborted"));
        WriteSession never = store.session("session-aborted");
        never.abort();
        assertTrue(never.getResult().isCancelled());
        assertThrows(IllegalStateException.class, never::open);
    }

    @Test
    void anAbortEndsACallOfAnotherThread() throws Exception {
        Store store = Servers.embedded();
        WriteSession session = store.session("hold-put");
        WritableByteChannel channel = session.open();
        CompletableFuture<Throwable> closed = new CompletableFuture<>();
        Thread thread =
                new Thread(() -> closed.complete(assertThrows(IOException.class, channel::close)));
        thread.start();
        while (thread.getState() != Thread.State.WAITING) {
            assertTrue(thread.isAlive(), "the close has ended before it waited");
            thread.join(1);
        }
        session.abort();
        assertEquals(AsynchronousCloseException.class, closed.get(60, TimeUnit.SECONDS).getClass());
        assertTrue(session.getResult().isCompletedExceptionally());
        assertFalse(session.getResult().isCancelled(), "the object may be there");
    }

    @Test
    void garbageFailsTheResult() throws Exception {
        try (Logged logged = new Logged()) {
            WriteSession session = lost(Servers.embedded());
            String message = logged.ofGarbage("session-garbage");
            assertEquals(message, failure(session).getMessage());
            session.abort();
            assertEquals(message, failure(session).getMessage());
        }
        assertFalse(Servers.embedded().exists("session-garbage"));
    }

    /** A session that the caller keeps, and whose channel nobody has. */
    private static WriteSession lost(Store store) throws IOException {
        WriteSession session = store.session("session-garbage");
        session.open().write(ByteBuffer.wrap(LARGE));
        return session;
    }

    @Test
    void configurationsWithoutDirectoriesShareABudget() throws Exception {
        Options budget = Options.of("memory", "52MiB");
        Tidegate one = Tidegate.shared(budget, WriteSessionConfigs.chunked());
        Tidegate other = Tidegate.shared(budget, WriteSessionConfigs.parallel());
        WriteSession session = one.open("memory://shared").session("a");
        try (WritableByteChannel channel = session.open()) {
            channel.write(ByteBuffer.allocate(3 << 20));
            assertTrue(other.usage().held() >= 3 << 20, () -> "another engine");
        }
        Options named = budget.and("journal", folder.toString());
        Tidegate journaling =
                Tidegate.shared(named, WriteSessionConfigs.journaling(List.of(folder)));
        try (Writer writer = journaling.open("memory://shared").writer("b")) {
            writer.write(new byte[3 << 20]);
            assertTrue(Tidegate.shared(named).usage().held() >= 3 << 20, "another engine");
        }
        assertThrows(
                IllegalArgumentException.class, () -> WriteSessionConfigs.journaling(List.of()));
    }
}
