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
import io.tidegate.TidegateException.Kind;

import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathIOException;
import org.apache.hadoop.fs.PathIsNotEmptyDirectoryException;
import org.junit.jupiter.api.Test;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;

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
        return job(store(), id, "part-0");
    }

    private static Job job(Store out, String id, String file) throws IOException {
        Job job = Job.of(out, id);
        job.setUp();
        TaskAttempt attempt = job.attempt("task", "attempt");
        try (TaskWriter writer = attempt.writer(file)) {
            writer.write("rows".getBytes(StandardCharsets.UTF_8));
            writer.finish();
        }
        attempt.commit();
        return job;
    }

    /** The upload of the attempt, as its record names it. */
    private Pending pending() throws IOException {
        return pending(workPath("dead/tasks/task/attempt.json"));
    }

    private Pending pending(Path manifest) throws IOException {
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

    private Path workPath(String id) {
        return new Path(out, WorkPath.WORK + id);
    }

    private static void assertAbandoned(Store store, Pending pending) {
        TestJob.assertFails(Kind.SESSION_LOST, "", () -> store.commit(pending));
    }

    private void assertGivenUp(Path deleted) throws IOException {
        Pending pending = pending();
        assertTrue(fs.delete(deleted, true));
        assertFalse(fs.exists(deleted));
        assertAbandoned(store(), pending);
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

    /** Jobs of the directory that are at work go on. */
    @Test
    void aDeleteOfAWorkPathGivesItsJobUpAlone() throws IOException {
        job("dead");
        Job other = job("other");
        TestStore.write(fs, new Path(out, "older"), "older rows");
        Pending pending = pending();
        assertThrows(PathIOException.class, () -> fs.delete(workPath("dead/tasks"), true));
        assertThrows(
                PathIOException.class,
                () -> fs.delete(workPath("dead/tasks/task/attempt.json"), false));
        List<Path> record = List.of(workPath("dead/job.json"));
        Map.Entry<Path, String> refused = fs.createBulkDelete(out).bulkDelete(record).get(0);
        assertEquals(record.get(0), refused.getKey());
        assertTrue(refused.getValue().contains("gives the job up"), refused.getValue());
        assertThrows(
                PathIsNotEmptyDirectoryException.class, () -> fs.delete(workPath("dead"), false));
        assertTrue(fs.delete(workPath("dead"), true));
        assertFalse(fs.exists(workPath("dead")));
        assertAbandoned(store(), pending);
        other.commit();
        assertEquals("rows", TestStore.text(fs, new Path(out, "part-0")));
        assertEquals("older rows", TestStore.text(fs, new Path(out, "older")));
        assertFalse(fs.delete(workPath("dead"), true));
    }

    /** The work path of a job that writes to the bucket itself has no slash before its name. */
    @Test
    void aJobOfTheBucketIsGivenUpByADeleteOfItsWorkPath() throws IOException {
        Path root = new Path(TestStore.uri().resolve("/"));
        Store bucket = fs.locate(root).directory();
        String id = tree.getName();
        job(bucket, id, id);
        Path work = new Path(root, WorkPath.WORK + id);
        Pending pending = pending(new Path(work, "tasks/task/attempt.json"));
        assertThrows(PathIOException.class, () -> fs.rename(work, tree));
        assertThrows(PathIOException.class, () -> fs.delete(new Path(work, "job.json"), false));
        assertTrue(fs.delete(work, true));
        assertFalse(fs.exists(work));
        assertAbandoned(bucket, pending);
    }

    @Test
    void whatIsNoJobIsDeleted() throws IOException {
        store().put("__tidegate_none/other", new byte[1]);
        store().put("d/__tidegate_none/other", new byte[1]);
        store().put("__tidegate_no id/other", new byte[1]);
        store().put("e/__tidegate_none/other", new byte[1]);
        assertTrue(fs.delete(workPath("no id"), true));
        assertTrue(fs.delete(new Path(out, "e/__tidegate_none"), true));
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
