package io.tidegate;

import static io.tidegate.Servers.bytes;
import static io.tidegate.Servers.fails;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.tidegate.TidegateException.Kind;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.WritableByteChannel;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Random;

class WriterTest {
    /** More than a part, so that there is a session. */
    private static final byte[] LARGE = bytes(12 << 20);

    private static final Duration LONG = Duration.ofSeconds(60);

    @ParameterizedTest
    @MethodSource("io.tidegate.Servers#all")
    void finishPublishes(Store store) throws Exception {
        ByteBuffer direct = ByteBuffer.allocateDirect(LARGE.length).put(LARGE).flip();
        try (Writer writer = store.writer("finish")) {
            writer.write(LARGE, 0, 1000);
            writer.write(direct.duplicate().position(1000).limit(LARGE.length / 2));
            writer.write(ByteBuffer.wrap(LARGE).asReadOnlyBuffer().position(LARGE.length / 2));
            assertEquals(LARGE.length, writer.position());
            assertFalse(store.exists("finish"));
            assertEquals(LARGE.length, writer.finish().size().getAsLong());
            fails(Kind.CLOSED, () -> writer.write(LARGE));
            fails(Kind.CLOSED, writer::finish);
        }
        assertArrayEquals(LARGE, store.get("finish"));
    }

    @Test
    void bytesOfTheStreamAndOfTheWriterKeepTheirOrder() throws Exception {
        Store store = Servers.embedded();
        try (Writer writer = store.writer("order")) {
            OutputStream stream = writer.asOutputStream();
            stream.write('a');
            writer.write(new byte[] {'b'});
            stream.write(new byte[] {'x', 'c', 'x'}, 1, 1);
            writer.asChannel().write(ByteBuffer.wrap(new byte[] {'d'}));
            stream.write('e');
            assertFalse(writer.isFinished());
            writer.finish();
            assertTrue(writer.isFinished());
        }
        assertEquals("abcde", new String(store.get("order"), StandardCharsets.UTF_8));
    }

    @ParameterizedTest
    @MethodSource("io.tidegate.Servers#all")
    void anythingElseDiscards(Store store) throws Exception {
        store.put("discard", new byte[] {1});
        try (Writer writer = store.writer("discard")) {
            writer.write(LARGE);
        }
        assertThrows(
                IllegalStateException.class,
                () -> {
                    try (Writer writer = store.writer("discard")) {
                        writer.write(LARGE);
                        throw new IllegalStateException("in the middle");
                    }
                });
        try (Writer writer = store.writer("discard")) {
            writer.write(LARGE);
            writer.abort();
            writer.abort();
            fails(Kind.CLOSED, writer::finish);
            assertFalse(writer.isFinished());
        }
        Tidegate.shared().waitForAborts(LONG);
        assertArrayEquals(new byte[] {1}, store.get("discard"));
    }

    @Test
    void garbageIsDiscardedAndLogged() throws Exception {
        Store store = Servers.embedded();
        try (Logged logged = new Logged()) {
            lose(store);
            logged.ofGarbage("garbage-stream");
            Tidegate.shared().waitForAborts(LONG);
            assertFalse(store.exists("garbage-stream"));
            assertFalse(store.exists("garbage-finished-not"));
        }
    }

    /**
     * Leaves an open stream to the collector, and a finished and a closed writer, of which it tells
     * nothing.
     */
    private static void lose(Store store) throws IOException {
        store.writer("garbage-stream").asOutputStream().write(LARGE);
        store.writer("garbage-finished").finish();
        store.writer("garbage-finished-not").close();
    }

    @Test
    void aFailedWriteStaysFailed() throws Exception {
        Store store = Servers.impatient();
        try (Writer writer = store.writer("refused-part/writer")) {
            fails(Kind.UNAVAILABLE, () -> writeUntilItFails(writer));
            fails(Kind.CLOSED, () -> writer.write(LARGE));
            fails(Kind.CLOSED, writer::finish);
        }
        WritableByteChannel channel = store.writer("refused-part/channel").asChannel();
        fails(Kind.UNAVAILABLE, () -> writeUntilItFails(channel));
        assertFalse(channel.isOpen());
        fails(Kind.UNAVAILABLE, () -> channel.write(ByteBuffer.wrap(LARGE)));
        // A second close too: what did not publish never looks as if it had.
        fails(Kind.UNAVAILABLE, channel::close);
        fails(Kind.UNAVAILABLE, channel::close);
        TidegateException thrown =
                fails(
                        Kind.UNAVAILABLE,
                        () -> {
                            try (OutputStream stream =
                                    store.writer("refused-part/stream").asOutputStream()) {
                                while (true) {
                                    stream.write(LARGE);
                                }
                            }
                        });
        assertEquals(1, thrown.getSuppressed().length);
        assertEquals(0, store.list("refused-part/").count());
    }

    private static void writeUntilItFails(Writer writer) throws IOException {
        while (true) {
            writer.write(LARGE);
        }
    }

    private static void writeUntilItFails(WritableByteChannel channel) throws IOException {
        while (true) {
            channel.write(ByteBuffer.wrap(LARGE));
        }
    }

    @Test
    void aFailedPublicationStaysFailed() throws Exception {
        Store store = Servers.impatient();
        OutputStream stream = store.writer("refused-put/a").asOutputStream();
        stream.write(1);
        fails(Kind.UNAVAILABLE, stream::close);
        fails(Kind.UNAVAILABLE, stream::close);
        assertFalse(store.exists("refused-put/a"));
    }

    @ParameterizedTest
    @MethodSource("io.tidegate.Servers#all")
    void streamsAndChannelsPublishOnClose(Store store) throws Exception {
        try (OutputStream stream = store.writer("stream").asOutputStream()) {
            for (int at = 0; at < 20_000; at++) {
                stream.write(LARGE[at]);
            }
            stream.write(LARGE, 20_000, LARGE.length - 20_001);
            stream.write(LARGE[LARGE.length - 1]);
            stream.flush();
            assertFalse(store.exists("stream"));
        }
        assertArrayEquals(LARGE, store.get("stream"));
        WritableByteChannel channel = store.writer("channel").asChannel();
        assertEquals(LARGE.length, channel.write(ByteBuffer.wrap(LARGE)));
        assertTrue(channel.isOpen());
        channel.close();
        channel.close();
        assertFalse(channel.isOpen());
        assertThrows(ClosedChannelException.class, () -> channel.write(ByteBuffer.allocate(1)));
        assertArrayEquals(LARGE, store.get("channel"));
    }

    /** As programs write rows. The lengths are on both sides of what a stream gathers. */
    @Test
    void smallWritesOfAStreamKeepTheirOrder() throws Exception {
        Store store = Servers.embedded();
        Random random = new Random(7);
        Writer writer = store.writer("rows");
        try (OutputStream stream = writer.asOutputStream()) {
            for (int at = 0; at < LARGE.length; ) {
                int length = Math.min(1 << random.nextInt(15), LARGE.length - at);
                length -= random.nextInt(length);
                if (length == 1) {
                    stream.write(LARGE[at]);
                } else {
                    stream.write(LARGE, at, length);
                }
                at += length;
                assertTrue(at - writer.position() <= 8192, "too many bytes are gathered");
            }
        }
        assertArrayEquals(LARGE, store.get("rows"));
        assertEquals(LARGE.length, writer.position());
    }

    @ParameterizedTest
    @MethodSource("io.tidegate.Servers#all")
    void anAbortedStreamPublishesNothing(Store store) throws Exception {
        Writer writer = store.writer("aborted");
        try (OutputStream stream = writer.asOutputStream()) {
            stream.write(LARGE);
            stream.write(1);
            writer.abort();
        }
        assertThrows(ClosedChannelException.class, () -> writer.asOutputStream().write(LARGE));
        assertFalse(store.exists("aborted"));
    }

    @Test
    void onlyAJournalSyncs() throws Exception {
        try (Writer writer = Tidegate.shared().open("memory://sync").writer("a")) {
            writer.write(new byte[3]);
            fails(Kind.UNSUPPORTED, writer::sync);
            assertEquals(3, writer.finish().size().getAsLong());
        }
    }

    @Test
    void aJournaledWriteIsDurable(@org.junit.jupiter.api.io.TempDir java.nio.file.Path journal)
            throws Exception {
        Tidegate tide = Tidegate.shared(Options.of("journal", journal.toString()));
        Store store = tide.open("memory://journaled");
        Writer writer = store.writer("a", Options.of("strategy", "journal"));
        try (OutputStream stream = writer.asOutputStream()) {
            stream.write(1);
            stream.write(new byte[] {2, 3});
            assertEquals(3, writer.position());
            assertEquals(3, writer.sync());
        }
        assertArrayEquals(new byte[] {1, 2, 3}, store.get("a"));
    }
}
