package io.tidegate.hadoop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.tidegate.TidegateException.Kind;

import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathIOException;
import org.junit.jupiter.api.Test;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** Commits on a store that fails for some keys: FAULTS in tests/java/test_hadoop.py. */
class StoreCommits {
    private static TestJob job(String directory, String id, String... settings) {
        TestJob job = new TestJob(new Path(TestStore.uri().resolve("/" + directory)), settings);
        job.conf.set("fs.tidegate.attempts", "2");
        // A file system of another test would have other settings.
        job.conf.set("fs.s3a.impl.disable.cache", "true");
        job.conf.set(TidegateCommitter.JOB_ID, id);
        return job;
    }

    @Test
    void anAttemptWithAFileWhoseWriteFailedIsNotCommitted() throws IOException {
        TestJob job = job("job-refused", "one").setUp();
        TestJob.Attempt attempt = job.attempt(0, 0);
        FSDataOutputStream out = attempt.create("part-0");
        assertThrows(
                IOException.class,
                () -> {
                    while (true) {
                        out.write(new byte[1 << 20]);
                    }
                });
        assertThrows(IOException.class, out::close);
        assertThrows(IOException.class, out::close);
        assertFalse(job.fs().exists(attempt.path("part-0")));
        FSDataOutputStream small = attempt.create("part-1");
        small.write(1);
        assertThrows(IOException.class, small::close);
        attempt.write("other", "text");
        // A program may have swallowed the failures.
        TestJob.assertFails(Kind.INVALID_INPUT, "part-", attempt::commit);
        attempt.abort();
        job.commit();
        assertEquals(Map.of(), job.files());
        job.assertEnded();
    }

    @Test
    void theCommitOfAnAttemptIsRepeated() throws IOException {
        TestJob job = job("job-stuck", "one").setUp();
        TestJob.Attempt attempt = job.attempt(0, 0);
        attempt.write("part-0", "zero");
        assertThrows(IOException.class, attempt::commit);
        attempt.commit();
        job.commit();
        assertEquals(Map.of("part-0", "zero"), job.files());
    }

    /** The second abort is as that of another process. */
    @Test
    void anAbortOfAnAttemptIsRepeated() throws IOException {
        TestJob job = job("job-kept", "one").setUp();
        TestJob.Attempt attempt = job.attempt(0, 0);
        attempt.write("part-0", "zero");
        assertThrows(IOException.class, attempt::abort);
        assertTrue(TaskAttempts.find(attempt.workPath()).isEmpty());
        assertEquals(1, job.sessions().size());
        attempt.abort();
        assertEquals(0, job.sessions().size());
        job.commit();
        assertEquals(Map.of(), job.files());
        job.assertEnded();
    }

    /** A job of three files, whose driver fails to publish one of them. */
    private static TestJob begun(String directory) throws IOException {
        TestJob job = job(directory, "one").setUp();
        for (int task = 0; task < 3; task++) {
            job.committed(task, "part-" + task, "text " + task);
        }
        assertThrows(IOException.class, job::commit);
        assertFalse(job.files().containsKey("part-1"));
        assertFalse(job.hasSuccess());
        return job;
    }

    private static void assertComplete(TestJob job) throws IOException {
        assertEquals(
                Map.of("part-0", "text 0", "part-1", "text 1", "part-2", "text 2"), job.files());
        assertTrue(job.hasSuccess());
    }

    /** As Spark aborts a job whose commit has failed. */
    @Test
    void anAbortKeepsWhatWasBegunAndTheNextCommitCompletesIt() throws IOException {
        TestJob job = begun("job-cut");
        job.abort();
        job.commit();
        assertComplete(job);
        job.assertEnded();
    }

    @Test
    void theNextJobCompletesWhatWasBegun() throws IOException {
        TestJob left = begun("job-left");
        job("job-left", "two").setUp();
        assertFalse(left.files().containsKey("part-1"));
        TestJob next = job("job-left", "three", TidegateCommitter.ROLL_FORWARD, "true").setUp();
        assertComplete(left);
        next.committed(0, "part-3", "text 3");
        next.commit();
        assertEquals(4, left.files().size());
    }

    /** A master of MapReduce that has died in the commit: the next one has the tasks' files. */
    @Test
    void theNextMasterCompletesWhatWasBegun() throws IOException {
        begun("job-master");
        TestJob next = job("job-master", "one").setUp();
        assertComplete(next);
        assertTrue(next.driver().isRecoverySupported(next.context()));
        for (int task = 0; task < 3; task++) {
            next.driver().recoverTask(next.context(task, 0));
        }
        assertThrows(IOException.class, () -> next.committed(3, "part-3", "text 3"));
        next.commit();
        assertComplete(next);
        next.assertEnded();
    }

    /** A delete that is refused, and has deleted none of the directory. */
    private static void assertStays(TestJob job, Path deleted) throws IOException {
        PathIOException refused =
                assertThrows(PathIOException.class, () -> job.fs().delete(deleted, true));
        String remedy =
                "tidegate commit --job s3://" + TestStore.bucket() + job.out.toUri().getPath();
        assertTrue(refused.getMessage().contains(remedy), refused.getMessage());
        assertEquals("older", job.files().get("older"));
        assertFalse(job.files().containsKey("part-1"));
    }

    private static void assertCompleteWithOlder(TestJob job) throws IOException {
        assertEquals("older", job.files().get("older"));
        assertTrue(job.fs().delete(new Path(job.out, "older"), false));
        assertComplete(job);
        job.assertEnded();
    }

    @Test
    void aDirectoryIsNotDeletedWhileAJobOfItPublishes() throws IOException {
        TestJob job = begun("job-deleted");
        TestStore.write(job.fs(), new Path(job.out, "older"), "older");
        assertStays(job, job.out);
        assertStays(job, new Path(job.out, WorkPath.WORK + "one"));
        job.commit();
        assertCompleteWithOlder(job);
    }

    @Test
    void aDirectoryAboveIsNotDeletedWhileAJobPublishes() throws IOException {
        TestJob job = begun("job-above/out");
        TestStore.write(job.fs(), new Path(job.out, "older"), "older");
        TestStore.write(job.fs(), new Path(job.out.getParent(), "z"), "z");
        assertStays(job, job.out.getParent());
        assertEquals("z", TestStore.text(job.fs(), new Path(job.out.getParent(), "z")));
        job.commit();
        assertCompleteWithOlder(job);
    }

    /** No job is given up if one has begun, whatever the order of their ids. */
    @Test
    void aJobBesideOneThatPublishesGoesOn() throws IOException {
        TestJob job = begun("job-beside");
        TestStore.write(job.fs(), new Path(job.out, "older"), "older");
        List<TestJob> others = List.of(job("job-beside", "a"), job("job-beside", "z"));
        List<TestJob.Attempt> attempts = new ArrayList<>();
        for (TestJob other : others) {
            TestJob.Attempt attempt = other.setUp().attempt(0, 0);
            attempt.write("other-" + other.conf.get(TidegateCommitter.JOB_ID), "text");
            attempts.add(attempt);
        }
        assertStays(job, job.out);
        for (TestJob.Attempt attempt : attempts) {
            attempt.commit();
        }
        for (TestJob other : others) {
            other.commit();
        }
        job.commit();
        assertEquals(6, job.files().size(), job.files().toString());
        job.assertEnded();
    }

    /** The bytes once, and no copy; the others are the job's, its records and its end. */
    @Test
    void theRequestsOfAJobOfOneFile() throws Exception {
        // A file system that other tests use knows the lifecycle rules.
        TestJob job = new TestJob(TestStore.directory(), "fs.s3a.impl.disable.cache", "true");
        StoreRequests.assertRequests(
                Map.ofEntries(
                        Map.entry("CreateMultipartUpload", 1),
                        Map.entry("UploadPart", 1),
                        Map.entry("CompleteMultipartUpload", 1),
                        Map.entry("ListParts", 2),
                        Map.entry("GetBucketLifecycleConfiguration", 1),
                        Map.entry("PutObject", 10),
                        Map.entry("GetObject", 17),
                        Map.entry("HeadObject", 2),
                        Map.entry("ListObjectsV2", 2),
                        Map.entry("DeleteObject", 4),
                        Map.entry("DeleteObjects", 1)),
                () -> {
                    job.setUp();
                    job.committed(0, "part-0", "text");
                    job.commit();
                });
    }
}
