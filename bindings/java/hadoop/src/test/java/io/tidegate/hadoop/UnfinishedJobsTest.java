package io.tidegate.hadoop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.tidegate.Job;
import io.tidegate.Pending;
import io.tidegate.Store;
import io.tidegate.TaskAttempt;
import io.tidegate.TaskWriter;
import io.tidegate.TidegateException;
import io.tidegate.TidegateException.Kind;

import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathIOException;
import org.junit.jupiter.api.Test;

import java.io.IOException;
import java.nio.charset.StandardCharsets;

/** Deletes and renames of directories that jobs write to. */
class UnfinishedJobsTest {
    private final TidegateFileSystem fs = (TidegateFileSystem) TestStore.fileSystem();
    private final Path tree = TestStore.directory();
    private final Path out = new Path(tree, "out");

    UnfinishedJobsTest() throws IOException {}

    private Store store() throws IOException {
        ObjectPath at = fs.locate(out);
        return at.store().within(at.key());
    }

    /** A job whose driver died: one attempt is committed. */
    private Job job(String id) throws IOException {
        Job job = Job.of(store(), id);
        job.setUp();
        TaskAttempt attempt = job.attempt("task", "attempt");
        try (TaskWriter writer = attempt.writer("part-0")) {
            writer.write("rows".getBytes(StandardCharsets.UTF_8));
            writer.finish();
        }
        attempt.commit();
        return job;
    }

    /** The upload of the attempt, as its record names it. */
    private Pending pending() throws IOException {
        Path manifest = new Path(out, "__tidegate_dead/tasks/task/attempt.json");
        String json = TestStore.text(fs, manifest);
        int from = json.indexOf("\"pending\":") + "\"pending\":".length();
        for (int end = json.indexOf('}', from); end > 0; end = json.indexOf('}', end + 1)) {
            String text = json.substring(from, end + 1);
            if (text.chars().filter(c -> c == '{').count()
                    == text.chars().filter(c -> c == '}').count()) {
                return Pending.fromJson(text);
            }
        }
        throw new AssertionError("a manifest without an upload: " + json);
    }

    private void assertUploadIsAbandoned(Pending pending) {
        TidegateException gone =
                assertThrows(TidegateException.class, () -> store().commit(pending));
        assertEquals(Kind.SESSION_LOST, gone.kind(), gone.getMessage());
    }

    private void assertGivenUp(Path deleted) throws IOException {
        Pending pending = pending();
        assertTrue(fs.delete(deleted, true));
        assertFalse(fs.exists(deleted));
        assertUploadIsAbandoned(pending);
        assertFalse(fs.exists(out));
    }

    @Test
    void aDeleteOfTheDirectoryGivesItsJobsUp() throws IOException {
        job("dead");
        TestStore.write(fs, new Path(out, "older"), "older rows");
        assertGivenUp(out);
    }

    @Test
    void aDeleteOfADirectoryAboveGivesTheJobsUp() throws IOException {
        job("dead");
        TestStore.write(fs, new Path(tree, "a"), "a");
        TestStore.write(fs, new Path(tree, "z/z"), "z");
        assertGivenUp(tree);
    }

    @Test
    void whatIsNoJobIsDeleted() throws IOException {
        TestStore.write(fs, new Path(out, "__tidegate_none/other"), "text");
        TestStore.write(fs, new Path(out, "d/__tidegate_none/other"), "text");
        assertTrue(fs.delete(tree, true));
        assertFalse(fs.exists(tree));
    }

    @Test
    void aDirectoryThatAJobWritesToIsNotRenamed() throws IOException {
        Job job = job("dead");
        TestStore.write(fs, new Path(out, "A"), "older rows");
        Path to = TestStore.directory();
        assertThrows(PathIOException.class, () -> fs.rename(out, to));
        assertThrows(PathIOException.class, () -> fs.rename(tree, to));
        assertFalse(fs.exists(to));
        job.commit();
        assertEquals("rows", TestStore.text(fs, new Path(out, "part-0")));
        assertTrue(fs.rename(tree, to));
        assertEquals("rows", TestStore.text(fs, new Path(to, "out/part-0")));
    }
}
