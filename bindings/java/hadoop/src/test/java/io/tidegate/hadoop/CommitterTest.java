package io.tidegate.hadoop;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.tidegate.TidegateException;

import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathIOException;
import org.apache.hadoop.io.NullWritable;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.mapreduce.OutputCommitter;
import org.apache.hadoop.mapreduce.RecordWriter;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.lib.output.FileOutputCommitter;
import org.apache.hadoop.mapreduce.lib.output.TextOutputFormat;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** What a job publishes, and when. */
class CommitterTest {
    private final TestJob job = new TestJob();

    @AfterEach
    void nothingIsLeft() throws IOException {
        job.assertEnded();
    }

    /** The library refuses, and says that what it was asked of is over. */
    private static void assertClosed(Executable work) {
        TestJob.assertFails(TidegateException.Kind.CLOSED, "", work);
    }

    /** Carries out work with the flag of an interrupt, which stays. */
    private static void interrupted(Executable work) throws Throwable {
        Thread.currentThread().interrupt();
        try {
            work.execute();
        } finally {
            assertTrue(Thread.interrupted());
        }
    }

    /** The sessions that {@link TestJob#assertEnded} looks for are those of the attempts. */
    @Test
    void anAttemptHasASessionOfEachFile() throws IOException {
        job.setUp();
        TestJob.Attempt attempt = job.attempt(0, 0);
        attempt.write("part-0", "zero");
        if (job.out.toUri().getScheme().equals("s3a")) {
            String key = job.out.toUri().getPath().substring(1) + "/part-0";
            assertEquals(Set.of(key), job.sessions());
        }
        job.abort();
    }

    @Test
    void nothingIsVisibleBeforeTheCommitOfTheJob() throws IOException {
        job.setUp();
        job.committed(0, "part-0", "zero");
        job.committed(1, "part-1", "one");
        assertEquals(Map.of(), job.files());
        assertFalse(job.hasSuccess());
        job.commit();
        assertEquals(Map.of("part-0", "zero", "part-1", "one"), job.files());
        assertTrue(job.hasSuccess());
        job.assertEnded();
    }

    @Test
    void theAttemptThatIsCommittedLastCounts() throws IOException {
        job.setUp();
        TestJob.Attempt first = job.attempt(0, 0);
        TestJob.Attempt second = job.attempt(0, 1);
        first.write("part-0", "first");
        first.write("only-first", "first");
        second.write("part-0", "second");
        second.commit();
        first.commit();
        job.commit();
        assertEquals(Map.of("part-0", "first", "only-first", "first"), job.files());
        job.assertEnded();
    }

    @Test
    void anAttemptThatIsNotCommittedDoesNotCount() throws IOException {
        job.setUp();
        job.attempt(0, 1).write("part-0", "slow");
        job.committed(0, "part-0", "fast");
        job.attempt(1, 0).write("part-1", "never");
        job.commit();
        assertEquals(Map.of("part-0", "fast"), job.files());
        job.assertEnded();
    }

    @Test
    void anAttemptWithoutFilesReplacesOneWithFiles() throws IOException {
        job.setUp();
        job.committed(0, "part-0", "zero");
        job.attempt(0, 1).commit();
        job.committed(1, "part-1", "one");
        job.commit();
        assertEquals(Map.of("part-1", "one"), job.files());
    }

    @Test
    void anAttemptThatComesTooLateIsRefused() throws IOException {
        job.setUp();
        TestJob.Attempt zombie = job.attempt(0, 1);
        zombie.write("part-0", "zombie");
        FSDataOutputStream open = zombie.create("part-1");
        open.write(1);
        job.committed(0, "part-0", "zero");
        TaskAttempts.Attempt elsewhere = TaskAttempts.find(zombie.workPath()).orElseThrow();
        job.commit();
        // The driver of another process would not know the attempt.
        TaskAttempts.add(zombie.workPath(), elsewhere.attempt());
        if (job.out.toUri().getScheme().equals("abfs")) {
            // Azure has no sessions that the end of the job could end.
            open.close();
        } else {
            assertThrows(IOException.class, open::close);
        }
        assertThrows(IOException.class, () -> zombie.write("part-2", "zombie"));
        assertClosed(zombie::commit);
        job.assertEnded();
        zombie.abort();
        assertEquals(Map.of("part-0", "zero"), job.files());
        job.assertEnded();
    }

    @Test
    void aCommitIsRepeatedByAnyDriver() throws IOException {
        job.setUp();
        job.committed(0, "part-0", "zero");
        job.commit();
        job.commit();
        assertEquals(Map.of("part-0", "zero"), job.files());
        assertTrue(job.driver().isCommitJobRepeatable(job.context()));
    }

    @Test
    void anAttemptThatWasAbortedCannotBeCommitted() throws IOException {
        job.setUp();
        TestJob.Attempt attempt = job.attempt(0, 0);
        attempt.write("part-0", "zero");
        TaskAttempts.Attempt here = TaskAttempts.find(attempt.workPath()).orElseThrow();
        attempt.abort();
        attempt.abort();
        assertThrows(PathIOException.class, attempt::commit);
        TaskAttempts.add(attempt.workPath(), here.attempt());
        assertClosed(attempt::commit);
        TaskAttempts.remove(attempt.workPath());
        assertThrows(PathIOException.class, () -> attempt.write("part-1", "one"));
        job.committed(1, "part-1", "one");
        job.commit();
        assertEquals(Map.of("part-1", "one"), job.files());
    }

    /** As the driver of MapReduce does for a task that died. */
    @Test
    void anotherProcessAbortsAnAttempt() throws IOException {
        job.setUp();
        TestJob.Attempt attempt = job.attempt(0, 0);
        attempt.write("part-0", "zero");
        TaskAttempts.Attempt here = TaskAttempts.find(attempt.workPath()).orElseThrow();
        TaskAttempts.remove(attempt.workPath());
        job.new Attempt(0, 0).abort();
        TaskAttempts.add(attempt.workPath(), here.attempt());
        assertClosed(attempt::commit);
        job.committed(1, "part-1", "one");
        assertThrows(IOException.class, () -> job.attempt(0, 0).commit());
        job.commit();
        assertEquals(Map.of("part-1", "one"), job.files());
    }

    /** As Spark does, which interrupts a task before it aborts it. */
    @Test
    void anAttemptThatWasInterruptedIsAborted() throws Throwable {
        job.setUp();
        TestJob.Attempt attempt = job.attempt(0, 0);
        attempt.write("part-0", "zero");
        FSDataOutputStream open = attempt.create("part-1");
        open.write(1);
        TaskAttempts.Attempt here = TaskAttempts.find(attempt.workPath()).orElseThrow();
        interrupted(attempt::abort);
        assertTrue(TaskAttempts.find(attempt.workPath()).isEmpty());
        open.abort();
        TaskAttempts.add(attempt.workPath(), here.attempt());
        assertClosed(attempt::commit);
        job.committed(1, "part-1", "one");
        job.commit();
        assertEquals(Map.of("part-1", "one"), job.files());
    }

    @Test
    void aSetupOfAnAttemptReplacesAnEarlierOne() throws IOException {
        job.setUp();
        TestJob.Attempt attempt = job.attempt(0, 0);
        TaskAttempts.Attempt here = TaskAttempts.find(attempt.workPath()).orElseThrow();
        attempt.committer.setupTask(attempt.context);
        assertNotSame(here, TaskAttempts.find(attempt.workPath()).orElseThrow());
        attempt.write("part-0", "zero");
        attempt.commit();
        job.commit();
        assertEquals(Map.of("part-0", "zero"), job.files());
    }

    @Test
    void aJobWhoseCommitWasInterruptedIsAborted() throws Throwable {
        job.setUp();
        job.committed(0, "part-0", "zero");
        job.attempt(1, 0).write("part-1", "one");
        interrupted(
                () -> {
                    assertThrows(InterruptedIOException.class, job::commit);
                    job.abort();
                });
        job.assertEnded();
        assertEquals(Map.of(), job.files());
    }

    @Test
    void aJobThatWasAbortedLeavesNothing() throws IOException {
        job.setUp();
        job.committed(0, "part-0", "zero");
        TestJob.Attempt late = job.attempt(1, 0);
        late.write("part-1", "one");
        job.abort();
        job.assertEnded();
        assertThrows(IOException.class, late::commit);
        assertThrows(IOException.class, job::commit);
        assertEquals(Map.of(), job.files());
        assertFalse(job.hasSuccess());
    }

    @Test
    void aJobThatIsNotThereCanBeAborted() throws IOException {
        job.abort();
        job.setUp();
        job.abort();
        job.abort();
        job.assertEnded();
    }

    @Test
    void anAbortAfterTheCommitChangesNothing() throws IOException {
        job.setUp();
        job.committed(0, "part-0", "zero");
        job.commit();
        job.abort();
        assertEquals(Map.of("part-0", "zero"), job.files());
        assertTrue(job.hasSuccess());
    }

    @Test
    void twoJobsWriteToOneDirectory() throws IOException {
        TestJob other = new TestJob(job.out);
        job.setUp();
        other.setUp();
        job.committed(0, "part-0", "zero");
        other.committed(0, "part-1", "one");
        job.commit();
        assertEquals(Map.of("part-0", "zero"), job.files());
        other.committed(1, "part-2", "two");
        other.commit();
        assertEquals(Map.of("part-0", "zero", "part-1", "one", "part-2", "two"), job.files());
        job.assertEnded();
    }

    @Test
    void aJobWithoutFilesHasASuccessMarker() throws IOException {
        job.setUp();
        job.attempt(0, 0).commit();
        job.commit();
        assertTrue(job.hasSuccess());
        job.assertEnded();
    }

    @Test
    void thereIsNoSuccessMarkerIfASettingSaysSo() throws IOException {
        TestJob quiet =
                new TestJob(job.out, FileOutputCommitter.SUCCESSFUL_JOB_OUTPUT_DIR_MARKER, "false");
        assertFalse(quiet.driver().isCommitJobRepeatable(quiet.context()));
        quiet.setUp();
        quiet.committed(0, "part-0", "zero");
        quiet.commit();
        assertEquals(Map.of("part-0", "zero"), quiet.files());
        assertFalse(quiet.hasSuccess());
        assertFalse(quiet.hasWorkPath());
    }

    @Test
    void filesOfPartitionsAreBelowTheirDirectories() throws IOException {
        job.setUp();
        TestJob.Attempt attempt = job.attempt(0, 0);
        attempt.write("a=1/b=2/part-0", "twelve");
        attempt.write("a=1/b=x%3Ay/part-0", "thirteen");
        attempt.commit();
        job.commit();
        assertEquals(
                Map.of("a=1/b=2/part-0", "twelve", "a=1/b=x%3Ay/part-0", "thirteen"), job.files());
        Path twelve = new Path(job.out, "a=1/b=2/part-0");
        assertEquals("twelve", TestStore.text(job.fs(), twelve));
    }

    /** Spark escapes other characters in the values of partitions, but not these. */
    @Test
    void filesOfPartitionsWithSeparatorsOfLinesAreTheJobs() throws IOException {
        Map<String, String> expected = new TreeMap<>();
        job.setUp();
        TestJob.Attempt attempt = job.attempt(0, 0);
        for (String odd : List.of("\u0085", "\u2028", "\u2029")) {
            String name = "a=x" + odd + "y/part-0";
            attempt.write(name, "text");
            assertEquals(4, job.fs().getFileStatus(attempt.path(name)).getLen());
            expected.put(name, "text");
        }
        assertEquals(Map.of(), job.files());
        assertEquals(3, job.fs().listStatus(attempt.committer.getWorkPath()).length);
        attempt.commit();
        job.commit();
        assertEquals(expected, job.files());
    }

    @Test
    void anOlderFileStaysUntilTheCommitReplacesIt() throws IOException {
        Path older = new Path(job.out, "part-0");
        TestStore.write(job.fs(), older, "older");
        job.setUp();
        job.committed(0, "part-0", "newer");
        assertEquals("older", TestStore.text(job.fs(), older));
        job.commit();
        assertEquals("newer", TestStore.text(job.fs(), older));
    }

    @Test
    void aFileOfManyPartsIsPublishedWhole() throws IOException {
        byte[] bytes = TestStore.bytes(20 << 20);
        job.setUp();
        TestJob.Attempt attempt = job.attempt(0, 0);
        TestStore.write(job.fs(), attempt.path("large"), bytes);
        attempt.commit();
        job.commit();
        byte[] read = TestStore.read(job.fs(), new Path(job.out, "large"));
        assertArrayEquals(bytes, read);
    }

    @Test
    void aFileThatIsNotClosedKeepsTheAttemptFromItsCommit() throws IOException {
        job.setUp();
        TestJob.Attempt attempt = job.attempt(0, 0);
        FSDataOutputStream open = attempt.create("part-0");
        open.writeBytes("zero");
        TestJob.assertFails(TidegateException.Kind.INVALID_INPUT, "part-0", attempt::commit);
        open.close();
        attempt.commit();
        job.commit();
        assertEquals(Map.of("part-0", "zero"), job.files());
    }

    @Test
    void aFileThatWasAbortedDoesNotCount() throws IOException {
        job.setUp();
        TestJob.Attempt attempt = job.attempt(0, 0);
        FSDataOutputStream out = attempt.create("part-0");
        out.writeBytes("torn");
        out.abort();
        out.close();
        assertFalse(job.fs().exists(attempt.path("part-0")));
        attempt.write("part-0", "whole");
        attempt.commit();
        job.commit();
        assertEquals(Map.of("part-0", "whole"), job.files());
    }

    @Test
    void anAttemptWithAFileWhoseWriteWasInterruptedIsNotCommitted() throws IOException {
        job.setUp();
        TestJob.Attempt attempt = job.attempt(0, 0);
        FSDataOutputStream out = attempt.create("part-0");
        out.write(TestStore.bytes(1 << 20));
        Thread.currentThread().interrupt();
        assertThrows(InterruptedIOException.class, () -> out.write(new byte[1 << 20]));
        assertTrue(Thread.interrupted());
        assertThrows(IOException.class, out::close);
        assertThrows(IOException.class, out::close);
        attempt.write("part-1", "one");
        TestJob.assertFails(TidegateException.Kind.INVALID_INPUT, "part-0", attempt::commit);
        attempt.write("part-0", "zero");
        attempt.commit();
        job.commit();
        assertEquals(Map.of("part-0", "zero", "part-1", "one"), job.files());
    }

    @Test
    void manyTasksWriteAtTheSameTime() throws Exception {
        job.setUp();
        ExecutorService threads = Executors.newFixedThreadPool(8);
        List<Future<?>> tasks = new ArrayList<>();
        Map<String, String> expected = new TreeMap<>();
        for (int number = 0; number < 24; number++) {
            int task = number;
            expected.put("part-" + task, "text " + task);
            tasks.add(threads.submit(() -> job.committed(task, "part-" + task, "text " + task)));
        }
        for (Future<?> task : tasks) {
            task.get();
        }
        threads.shutdown();
        assertEquals(Map.of(), job.files());
        job.commit();
        assertEquals(expected, job.files());
        job.assertEnded();
    }

    @Test
    void theWriterMayHaveAFileSystemOfItsOwn() throws IOException {
        String scheme = job.out.toUri().getScheme();
        TestJob uncached = new TestJob(job.out, "fs." + scheme + ".impl.disable.cache", "true");
        uncached.setUp();
        TestJob.Attempt attempt = uncached.committed(0, "part-0", "zero");
        assertFalse(uncached.fs().equals(uncached.fs()));
        assertThrows(IOException.class, () -> uncached.fs().getFileStatus(attempt.path("part-0")));
        uncached.commit();
        assertEquals(Map.of("part-0", "zero"), uncached.files());
    }

    /** Hadoop's own format, which finds the committer by the settings and writes to its path. */
    @Test
    void theFormatOfTextWritesThroughTheCommitter() throws Exception {
        TextOutputFormat<Text, NullWritable> format = new TextOutputFormat<>();
        TaskAttemptContext context = job.context(3, 0);
        OutputCommitter committer = format.getOutputCommitter(context);
        assertEquals(TidegateCommitter.class, committer.getClass());
        committer.setupJob(job.context());
        committer.setupTask(context);
        RecordWriter<Text, NullWritable> writer = format.getRecordWriter(context);
        for (int row = 0; row < 1000; row++) {
            writer.write(new Text("row " + row), NullWritable.get());
        }
        writer.close(context);
        assertTrue(committer.needsTaskCommit(context));
        committer.commitTask(context);
        assertEquals(Map.of(), job.files());
        committer.commitJob(job.context());
        String text = job.files().get("part-m-00003");
        assertEquals(1000, text.lines().count());
        assertTrue(text.startsWith("row 0\nrow 1\n") && text.endsWith("row 999\n"));
    }
}
