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
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.WritableByteChannel;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;

class TaskWriterTest {
    /** More than a part. */
    private static final byte[] LARGE = bytes(12 << 20);

    private static final Duration LONG = Duration.ofSeconds(60);

    @ParameterizedTest
    @MethodSource("io.tidegate.Servers#withGoogle")
    void whatIsFinishedCountsAndNothingElse(Store store) throws Exception {
        Store out = store.within("out");
        Job job = JobTest.newJob(out, "a");
        TaskAttempt attempt = job.attempt("t0", "t0-0");
        try (TaskWriter writer = attempt.writer("finished")) {
            ByteBuffer direct = ByteBuffer.allocateDirect(LARGE.length).put(LARGE).flip();
            writer.write(LARGE, 0, 1000);
            writer.write(direct.position(1000));
            assertEquals(LARGE.length, writer.position());
            // A file of this key is open.
            fails(Kind.INVALID_INPUT, () -> attempt.writer("finished"));
            fails(Kind.INVALID_INPUT, attempt::commit);
            writer.finish();
            fails(Kind.CLOSED, () -> writer.write(LARGE));
            fails(Kind.CLOSED, writer::finish);
            writer.abort();
        }
        fails(Kind.INVALID_INPUT, () -> attempt.writer("finished"));
        try (OutputStream stream = attempt.writer("stream").asOutputStream()) {
            for (int at = 0; at < 20_000; at++) {
                stream.write(LARGE[at]);
            }
            stream.write(LARGE, 20_000, LARGE.length - 20_001);
            stream.write(LARGE[LARGE.length - 1]);
        }
        try (WritableByteChannel channel = attempt.writer("channel").asChannel()) {
            assertEquals(LARGE.length, channel.write(ByteBuffer.wrap(LARGE)));
        }
        attempt.writer("empty").finish();
        try (TaskWriter writer = attempt.writer("closed")) {
            writer.write(LARGE);
        }
        assertThrows(
                IllegalStateException.class,
                () -> {
                    try (TaskWriter writer = attempt.writer("thrown")) {
                        writer.write(LARGE);
                        throw new IllegalStateException("in the middle");
                    }
                });
        TaskWriter aborted = attempt.writer("aborted");
        try (OutputStream stream = aborted.asOutputStream()) {
            stream.write(LARGE);
            stream.write(1);
            aborted.abort();
        }
        assertThrows(ClosedChannelException.class, () -> aborted.asOutputStream().write(1));
        // A key whose file was discarded is free.
        attempt.writer("aborted").close();
        attempt.writer("aborted").abort();
        attempt.commit();
        assertTrue(JobTest.keys(out).stream().allMatch(key -> key.startsWith("__tidegate_")));
        CommittedJob committed = job.commit();
        assertEquals(4, committed.objects());
        assertEquals(3L * LARGE.length, committed.bytes());
        assertEquals(
                List.of("_SUCCESS", "channel", "empty", "finished", "stream"), JobTest.keys(out));
        for (String key : List.of("finished", "stream", "channel")) {
            assertArrayEquals(LARGE, out.get(key));
        }
    }

    @Test
    void anAttemptIsNotCommittedWithoutAFileThatFailed() throws Exception {
        Store store = Servers.impatient();
        Job job = JobTest.newJob(store, "failed-writer");
        TaskAttempt attempt = job.attempt("t0", "t0-0");
        try (TaskWriter writer = attempt.writer("refused-part/task-writer")) {
            fails(Kind.UNAVAILABLE, () -> writeUntilItFails(writer));
            fails(Kind.CLOSED, () -> writer.write(LARGE));
            fails(Kind.CLOSED, writer::finish);
        }
        isLost(attempt, "refused-part/task-writer");
        attempt.writer("refused-part/task-writer").close();
        attempt.commit();
        try (TaskWriter writer = attempt.writer("refused-part/task-finish")) {
            writer.write(new byte[1]);
            fails(Kind.UNAVAILABLE, writer::finish);
            TidegateException closed = fails(Kind.CLOSED, writer::finish);
            assertTrue(closed.getMessage().contains("failed"), closed.getMessage());
            isLost(attempt, "refused-part/task-finish");
            writer.abort();
            attempt.commit();
        }
        TaskWriter streamed = attempt.writer("refused-part/task-stream");
        OutputStream stream = streamed.asOutputStream();
        stream.write(1);
        fails(Kind.UNAVAILABLE, stream::close);
        fails(Kind.UNAVAILABLE, stream::close);
        isLost(attempt, "refused-part/task-stream");
        streamed.abort();
        attempt.commit();
        assertEquals(0, job.commit().objects());
        assertEquals(0, store.list("refused-part/task-").count());
    }

    private static void isLost(TaskAttempt attempt, String key) {
        TidegateException refused = fails(Kind.INVALID_INPUT, attempt::commit);
        assertTrue(refused.getMessage().contains(key), refused.getMessage());
        assertTrue(refused.getMessage().contains("not closed"), refused.getMessage());
    }

    @Test
    void anAttemptIsNotCommittedWithoutAFileWhoseWriteWasInterrupted() throws Exception {
        Store out = Servers.embedded().within("interrupted-file");
        Job job = JobTest.newJob(out, "a");
        TaskAttempt attempt = job.attempt("t0", "t0-0");
        try (TaskWriter writer = attempt.writer("0")) {
            Thread.currentThread().interrupt();
            assertThrows(InterruptedIOException.class, () -> writer.write(LARGE));
            assertTrue(Thread.interrupted());
        }
        isLost(attempt, "interrupted-file/0");
        TaskWriter writer = attempt.writer("0");
        writer.write(LARGE);
        writer.finish();
        attempt.commit();
        assertEquals(1, job.commit().objects());
        assertArrayEquals(LARGE, out.get("0"));
    }

    private static void writeUntilItFails(TaskWriter writer) throws IOException {
        while (true) {
            writer.write(LARGE);
        }
    }

    @Test
    void garbageIsLoggedAndKeepsTheAttemptFromItsCommit() throws Exception {
        Store out = Servers.embedded().within("garbage-job");
        Job job = JobTest.newJob(out, "a");
        TaskAttempt attempt = job.attempt("t0", "t0-0");
        try (Logged logged = new Logged()) {
            lose(attempt);
            String message = logged.ofGarbage("garbage-task");
            assertTrue(message.contains("not committed"), message);
        }
        Tidegate.shared().waitForAborts(LONG);
        isLost(attempt, "garbage-task");
        attempt.writer("garbage-task").close();
        Tidegate.shared().waitForAborts(LONG);
        attempt.commit();
        assertEquals(1, job.commit().objects());
        assertFalse(out.exists("garbage-task"));
    }

    /** Leaves an open writer to the collector, and a finished one, of which it tells nothing. */
    private static void lose(TaskAttempt attempt) throws IOException {
        attempt.writer("garbage-task").asOutputStream().write(LARGE);
        attempt.writer("garbage-task-finished").finish();
    }

    @Test
    void whatAJobCanNotHaveIsRefused(@TempDir Path journal) throws Exception {
        Tidegate tide = Tidegate.shared(Options.of("journal", journal.toString()));
        Store out = Servers.open(tide, "embedded", "/refused-files");
        Job job = JobTest.newJob(out, "a");
        TaskAttempt attempt = job.attempt("t0", "t0-0");
        for (String key : List.of("_SUCCESS", "__tidegate_b/x")) {
            fails(Kind.INVALID_INPUT, () -> attempt.writer(key));
        }
        fails(
                Kind.UNSUPPORTED,
                () -> attempt.writer("journaled", Options.of("strategy", "journal")));
        TidegateException unknown =
                fails(Kind.INVALID_INPUT, () -> attempt.writer("0", Options.of("colour", "red")));
        assertTrue(unknown.getMessage().contains("colour"), unknown.getMessage());
        fails(Kind.INVALID_INPUT, () -> attempt.writer("0", Options.of("random", "true")));
        attempt.commit();
        assertEquals(0, job.commit().objects());
        assertEquals(List.of("_SUCCESS"), JobTest.keys(out));
    }
}
