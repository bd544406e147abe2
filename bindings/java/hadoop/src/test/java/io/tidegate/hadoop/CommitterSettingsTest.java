package io.tidegate.hadoop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathIOException;
import org.apache.hadoop.mapreduce.Job;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.TaskAttemptID;
import org.apache.hadoop.mapreduce.lib.output.PathOutputCommitter;
import org.apache.hadoop.mapreduce.lib.output.PathOutputCommitterFactory;
import org.apache.hadoop.mapreduce.task.JobContextImpl;
import org.apache.hadoop.mapreduce.task.TaskAttemptContextImpl;
import org.junit.jupiter.api.Test;

import java.io.IOException;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** How a committer is found, and what its settings do. */
class CommitterSettingsTest {
    private static final String SPARK_ID = "spark.sql.sources.writeJobUUID";

    private final TestJob job = new TestJob();

    private static String workPath(TestJob job) throws IOException {
        return job.out.toUri().relativize(job.driver().getWorkPath().toUri()).getPath();
    }

    @Test
    void theSettingOfTheSchemeNamesTheFactory() throws IOException {
        PathOutputCommitter committer = job.driver();
        assertInstanceOf(TidegateCommitter.class, committer);
        assertEquals(job.out, committer.getOutputPath());
        assertTrue(committer.hasOutputPath());
        assertTrue(committer.needsTaskCommit(job.context(0, 0)));
        assertTrue(committer.isRecoverySupported(job.context()));
    }

    @Test
    void theIdIsThatOfTheSettingElseSparksElseMapReduces() throws IOException {
        String attempt = "/files/" + job.context(0, 0).getTaskAttemptID().getTaskID() + "/";
        assertTrue(workPath(job).startsWith("__tidegate_" + job.id + attempt));
        job.conf.set(SPARK_ID, "of-spark");
        assertTrue(workPath(job).startsWith("__tidegate_of-spark" + attempt));
        job.conf.set(TidegateCommitter.JOB_ID, "of-the-user");
        assertTrue(workPath(job).startsWith("__tidegate_of-the-user" + attempt));
    }

    /** Spark's driver makes its committer with another id of MapReduce's than its tasks. */
    @Test
    void sparksIdJoinsDriverAndTasks() throws IOException {
        String id = "6b1f1e1e-0000-4000-8000-000000000007";
        TestJob driver = new TestJob(job.out, SPARK_ID, id);
        TestJob executor = new TestJob(job.out, SPARK_ID, id);
        driver.setUp();
        executor.committed(0, "part-0", "zero");
        driver.driver().commitJob(new JobContextImpl(driver.conf, null));
        assertEquals(Map.of("part-0", "zero"), driver.files());
    }

    /** A write of Spark, whose driver has a job that was not submitted. */
    private void assertSparkWrites(boolean isNamedLate) throws IOException {
        Job driver = Job.getInstance(job.conf);
        TaskAttemptID other = new TestJob(job.out).context(0, 0).getTaskAttemptID();
        TaskAttemptContext context = new TaskAttemptContextImpl(driver.getConfiguration(), other);
        PathOutputCommitter committer =
                PathOutputCommitterFactory.createCommitter(job.out, context);
        committer.setupJob(driver);
        committer.setupJob(driver);
        if (isNamedLate) {
            driver.getConfiguration().set(SPARK_ID, "6b1f1e1e-0000-4000-8000-000000000008");
        }
        TestJob executor = new TestJob(job.out);
        executor.conf.addResource(driver.getConfiguration());
        executor.committed(0, "part-0", "zero");
        executor.attempt(1, 0).abort();
        committer.commitJob(driver);
        assertEquals(Map.of("part-0", "zero"), job.files());
        job.assertEnded();
    }

    /** Version 4.1 does not name a write of its second interface. */
    @Test
    void aWriteThatSparkDoesNotNameHasAnId() throws IOException {
        assertSparkWrites(false);
        assertSparkWrites(false);
    }

    /** As of version 4.2. */
    @Test
    void aWriteThatSparkNamesAfterTheSetupKeepsItsId() throws IOException {
        assertSparkWrites(true);
    }

    @Test
    void aJobWithoutAnIdIsRefused() throws IOException {
        PathOutputCommitter driver = job.driver();
        IOException refused =
                assertThrows(
                        IOException.class,
                        () -> driver.commitJob(new JobContextImpl(job.conf, null)));
        assertTrue(refused.getMessage().contains(TidegateCommitter.JOB_ID), refused.getMessage());
    }

    @Test
    void anIdThatCannotBePartOfAKeyIsRefused() {
        job.conf.set(TidegateCommitter.JOB_ID, "a b");
        assertThrows(IOException.class, job::setUp);
    }

    @Test
    void eachJobHasAnIdOfItsOwn() throws IOException {
        job.setUp();
        job.setUp();
        job.committed(0, "part-0", "zero");
        job.commit();
        // As a master of MapReduce does whose predecessor has died.
        job.setUp();
        assertThrows(IOException.class, () -> job.committed(1, "part-1", "one"));
        job.commit();
        assertEquals(Map.of("part-0", "zero"), job.files());
        job.assertEnded();
    }

    @Test
    void anotherFileSystemIsRefused() {
        TestJob local = new TestJob(new Path("file:/tmp/out"));
        PathIOException refused = assertThrows(PathIOException.class, local::driver);
        String message = refused.getMessage();
        assertTrue(message.contains("file:/tmp/out"), message);
        assertTrue(message.contains(LocalFileSystem.class.getName()), message);
        assertTrue(message.contains("fs.file.impl"), message);
    }

    /** As in Spark, if the jar is on the class path and among the jars of the job. */
    @Test
    void theFileSystemOfAnotherClassLoaderIsRefused() throws Exception {
        URL classes = TidegateFileSystem.class.getProtectionDomain().getCodeSource().getLocation();
        String name = TidegateFileSystem.class.getName();
        try (URLClassLoader other =
                new URLClassLoader(new URL[] {classes}, getClass().getClassLoader()) {
                    @Override
                    protected Class<?> loadClass(String of, boolean isLinked)
                            throws ClassNotFoundException {
                        if (!of.startsWith("io.tidegate.hadoop.")) {
                            return super.loadClass(of, isLinked);
                        }
                        synchronized (getClassLoadingLock(of)) {
                            Class<?> known = findLoadedClass(of);
                            return known == null ? findClass(of) : known;
                        }
                    }
                }) {
            String scheme = job.out.toUri().getScheme();
            job.conf.set("fs." + scheme + ".impl.disable.cache", "true");
            job.conf.set("fs." + scheme + ".impl", name);
            job.conf.setClassLoader(other);
            IOException refused =
                    assertThrows(
                            IOException.class,
                            () ->
                                    new TidegateCommitterFactory()
                                            .createOutputCommitter(job.out, job.context(0, 0)));
            String message = refused.getMessage();
            assertTrue(message.contains("two class loaders"), message);
            assertFalse(message.contains(".impl"), message);
        }
    }

    @Test
    void aJobWithoutAnOutputDirectoryIsRefused() {
        IOException refused =
                assertThrows(
                        IOException.class,
                        () ->
                                new TidegateCommitterFactory()
                                        .createOutputCommitter(null, job.context(0, 0)));
        assertTrue(refused.getMessage().contains("output directory"), refused.getMessage());
    }

    /** Spark asks for this before it overwrites single partitions. */
    @Test
    void noSinglePartitionsAreOverwritten() throws IOException {
        TidegateCommitter committer = (TidegateCommitter) job.driver();
        assertFalse(committer.hasCapability("mapreduce.job.committer.dynamic.partitioning"));
    }

    private static long number(String name, String json) {
        Matcher found = Pattern.compile("\"" + name + "\":(\\d+)").matcher(json);
        assertTrue(found.find(), json);
        return Long.parseLong(found.group(1));
    }

    @Test
    void theLifetimeIsThatOfTheSetting() throws IOException {
        Map<String, Long> seconds = Map.of("2h", 7200L, "90", 90L, "1500ms", 1L, "", 6L * 86_400);
        for (Map.Entry<String, Long> setting : seconds.entrySet()) {
            TestJob one = new TestJob(job.out, TidegateCommitter.LIFETIME, setting.getKey());
            one.setUp();
            Path settings = new Path(job.out, "__tidegate_" + one.id + "/job.json");
            String json = TestStore.text(one.fs(), settings);
            long lifetime = number("until", json) - number("created", json);
            assertEquals(setting.getValue(), lifetime, setting.getKey());
            one.abort();
        }
    }

    @Test
    void aLifetimeOfLessThanASecondIsRefused() {
        for (String none : List.of("0s", "500ms", "-1h")) {
            job.conf.set(TidegateCommitter.LIFETIME, none);
            IOException refused = assertThrows(IOException.class, job::setUp);
            assertTrue(refused.getMessage().contains(none), refused.getMessage());
        }
    }

    @Test
    void noFileIsWrittenWhenTheLifetimeIsOver() throws Exception {
        TestJob over = new TestJob(job.out, TidegateCommitter.LIFETIME, "1s");
        over.setUp();
        TestJob.Attempt attempt = over.attempt(0, 0);
        Thread.sleep(2000);
        IOException refused = assertThrows(IOException.class, () -> attempt.create("part-0"));
        assertTrue(refused.getMessage().contains("lifetime"), refused.getMessage());
        over.abort();
    }

    @Test
    void aLifetimeThatTheStoreDoesNotGrantIsRefused() throws IOException {
        TestJob longer = new TestJob(job.out, TidegateCommitter.LIFETIME, "30d");
        longer.setUp();
        TestJob.Attempt attempt = longer.attempt(0, 0);
        if (longer.out.toUri().getScheme().equals("abfs")) {
            IOException refused = assertThrows(IOException.class, () -> attempt.create("part-0"));
            assertTrue(refused.getMessage().contains("lifetime"), refused.getMessage());
        } else {
            attempt.write("part-0", "zero");
        }
        longer.abort();
        assertFalse(longer.hasWorkPath());
    }

    @Test
    void aLifetimeThatIsNoTimeIsRefused() {
        job.conf.set(TidegateCommitter.LIFETIME, "soon");
        IOException refused = assertThrows(IOException.class, job::setUp);
        assertTrue(refused.getMessage().contains(TidegateCommitter.LIFETIME));
    }

    /** The library would refuse options that it does not know. */
    @Test
    void theCommittersSettingsAreNoOptionsOfTheStore() throws IOException {
        Configuration conf = TestStore.configure(new Configuration());
        conf.set(TidegateCommitter.JOB_ID, "one");
        conf.set(TidegateCommitter.ROLL_FORWARD, "true");
        try (FileSystem fs = FileSystem.newInstance(TestStore.uri(), conf)) {
            assertFalse(fs.exists(job.out));
        }
        conf.set("fs.tidegate.committer.lifetim", "1h");
        try (FileSystem fs = FileSystem.newInstance(TestStore.uri(), conf)) {
            assertThrows(IOException.class, () -> fs.exists(job.out));
        }
    }

    @Test
    void attemptsNeedASetup() throws IOException {
        assertThrows(IOException.class, () -> job.attempt(0, 0));
        job.setUp();
        TestJob.Attempt attempt = job.new Attempt(0, 0);
        IOException refused = assertThrows(IOException.class, attempt::commit);
        assertTrue(refused.getMessage().contains("set"), refused.getMessage());
        job.abort();
    }
}
