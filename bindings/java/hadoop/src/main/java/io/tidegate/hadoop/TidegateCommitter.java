package io.tidegate.hadoop;

import io.tidegate.AttemptAbort;
import io.tidegate.CommittedJob;
import io.tidegate.FoundJob;
import io.tidegate.Job;
import io.tidegate.JobAbort;
import io.tidegate.JobOutcome;
import io.tidegate.JobSettings;
import io.tidegate.TaskAttempt;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathIOException;
import org.apache.hadoop.fs.StreamCapabilities;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.JobID;
import org.apache.hadoop.mapreduce.JobStatus;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.TaskAttemptID;
import org.apache.hadoop.mapreduce.lib.output.FileOutputCommitter;
import org.apache.hadoop.mapreduce.lib.output.PathOutputCommitter;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.TimeUnit;

/**
 * Publishes the output of Hadoop and Spark jobs. {@link Job} states the guarantees.
 *
 * <p>Tasks write below {@link #getWorkPath()}, and each file is uploaded once, on its final key.
 * Nobody sees a file before {@link #commitJob}. From the moment when that begins to publish, every
 * process can complete the job: a repeated {@code commitJob}, {@code tidegate commit --job}, or a
 * later job with the setting {@code fs.tidegate.committer.roll_forward}. The sessions of tasks and
 * executors that died are ended with the job.
 *
 * <p>Driver and tasks have the same job if they have the same output directory and id: the setting
 * {@code fs.tidegate.committer.job_id}, else the one that Spark gives to a write, else the id that
 * MapReduce gives to a job. If there is none of them, {@link #setupJob} makes one, and puts it into
 * the settings of its context, from which Spark makes those of the tasks.
 */
public final class TidegateCommitter extends PathOutputCommitter implements StreamCapabilities {
    private static final Logger LOG = LoggerFactory.getLogger(TidegateCommitter.class);

    static final String JOB_ID = Settings.name(Settings.JOB_ID);
    static final String LIFETIME = Settings.name(Settings.JOB_LIFETIME);
    static final String ROLL_FORWARD = Settings.name(Settings.ROLL_FORWARD);

    private static final String SPARK_JOB_ID = "spark.sql.sources.writeJobUUID";

    private final ObjectPath out;
    private final Path workPath;

    /**
     * The committer of a task attempt, or of the driver. Sends nothing.
     *
     * @throws IOException if the output directory is not of a {@link TidegateFileSystem}
     */
    public TidegateCommitter(Path out, TaskAttemptContext context) throws IOException {
        super(out, context);
        if (out == null) {
            throw new IOException("the job has no output directory: TidegateCommitter needs one");
        }
        FileSystem fs = out.getFileSystem(context.getConfiguration());
        if (!(fs instanceof TidegateFileSystem ours)) {
            throw foreign(out, fs);
        }
        this.out = ours.locate(out);
        workPath = workPath(context).path();
    }

    private static PathIOException foreign(Path out, FileSystem fs) {
        String ours = TidegateFileSystem.class.getName();
        String theirs = fs.getClass().getName();
        String why =
                theirs.equals(ours)
                        ? "two class loaders have TidegateFileSystem: put the jar of"
                              + " tidegate-hadoop into one place, the class path of the JVM, which"
                              + " is spark.driver.extraClassPath and spark.executor.extraClassPath"
                              + " in Spark, and not among the jars of the job too"
                        : "TidegateCommitter commits files of TidegateFileSystem, and this is a"
                                + " path of "
                                + theirs
                                + ": set fs."
                                + fs.getScheme()
                                + ".impl to "
                                + ours;
        return new PathIOException(out.toString(), why);
    }

    @Override
    public Path getOutputPath() {
        return out.path();
    }

    /** Where the task attempt writes its files: {@code OUT/__tidegate_JOB/files/TASK/ATTEMPT}. */
    @Override
    public Path getWorkPath() {
        return workPath;
    }

    private static String jobId(JobContext context) throws IOException {
        Configuration conf = context.getConfiguration();
        for (String name : List.of(JOB_ID, SPARK_JOB_ID)) {
            String id = conf.getTrimmed(name, "");
            if (!id.isEmpty()) {
                return id;
            }
        }
        JobID id = context.getJobID();
        if (id == null) {
            throw new IOException("the job has no id: set " + JOB_ID + " to one of its own");
        }
        return id.toString();
    }

    private WorkPath workPath(TaskAttemptContext context) throws IOException {
        TaskAttemptID id = context.getTaskAttemptID();
        return new WorkPath(out.path(), jobId(context), id.getTaskID().toString(), id.toString());
    }

    private interface Work<T> {
        T with(Job job) throws IOException;
    }

    private <T> T withJob(JobContext context, Work<T> work) throws IOException {
        String id = jobId(context);
        try {
            return work.with(Job.of(out.directory(), id));
        } catch (IOException e) {
            throw Failures.of(out.path(), e);
        }
    }

    // The driver.

    /**
     * {@inheritDoc} May be repeated, also once the commit was begun or the job is complete: so does
     * the next master of MapReduce when one has died in {@link #commitJob}. This then completes the
     * job, and attempts are refused.
     *
     * @throws IOException if a job of this id was given up before
     */
    @Override
    public void setupJob(JobContext context) throws IOException {
        identify(context);
        JobSettings settings = settings(context.getConfiguration());
        List<FoundJob> ended = withJob(context, job -> job.setUp(settings));
        String id = jobId(context);
        LOG.info("{}: job {} is set up", out.path(), id);
        for (FoundJob found : ended) {
            if (found.failure().isPresent()) {
                LOG.warn(
                        "{}: the earlier job {} could not be brought to its end",
                        out.path(),
                        found.id(),
                        found.failure().get());
            } else if (!found.id().equals(id)) {
                LOG.info("{}: the earlier job {}: {}", out.path(), found.id(), found.outcome());
            } else if (found.outcome() instanceof JobOutcome.Committed) {
                LOG.warn(
                        "{}: job {} was begun before, and is complete now: it takes no more files",
                        out.path(),
                        id);
            }
        }
    }

    /**
     * Gives the job an id, whatever its settings get later. Spark hands over a job that MapReduce
     * knows nothing of, and some of its versions name the write only afterwards.
     */
    private static void identify(JobContext context) {
        Configuration conf = context.getConfiguration();
        boolean isNamed =
                context.getJobID() != null
                        || List.of(JOB_ID, SPARK_JOB_ID).stream()
                                .anyMatch(name -> !conf.getTrimmed(name, "").isEmpty());
        if (!isNamed) {
            conf.set(JOB_ID, UUID.randomUUID().toString());
        }
    }

    private static boolean hasSuccessMarker(Configuration conf) {
        return conf.getBoolean(FileOutputCommitter.SUCCESSFUL_JOB_OUTPUT_DIR_MARKER, true);
    }

    private static JobSettings settings(Configuration conf) throws IOException {
        JobSettings settings =
                JobSettings.defaults()
                        .withSuccessMarker(hasSuccessMarker(conf))
                        .withRollForwardEarlier(conf.getBoolean(ROLL_FORWARD, false))
                        // MapReduce begins anew with a job whose master has died in the commit.
                        .withCompleteBegun(true);
        if (conf.getTrimmed(LIFETIME, "").isEmpty()) {
            return settings;
        }
        long seconds;
        try {
            seconds = conf.getTimeDuration(LIFETIME, 0, TimeUnit.SECONDS);
        } catch (IllegalArgumentException e) {
            throw new IOException(LIFETIME + " is no time such as 12h: " + conf.get(LIFETIME), e);
        }
        if (seconds < 1) {
            throw new IOException(LIFETIME + " is less than a second: " + conf.get(LIFETIME));
        }
        return settings.withLifetime(Duration.ofSeconds(seconds));
    }

    /**
     * Publishes the files of the attempts that count, and then {@code _SUCCESS}. May be repeated,
     * by any process, until it succeeds.
     *
     * @throws IOException if nothing was published, or, once it was begun, if the job is not
     *     complete: repeat it
     */
    @Override
    public void commitJob(JobContext context) throws IOException {
        CommittedJob committed = withJob(context, Job::commit);
        TaskAttempts.removeAll(out.path(), jobId(context));
        warn(committed.unreadable());
        LOG.info("{}: job {} is complete: {}", out.path(), jobId(context), committed);
    }

    /**
     * Gives the job up, unless its commit has begun to publish: then it abandons nothing, logs how
     * the job is completed, and succeeds.
     *
     * @throws IOException of the store: repeat it
     */
    @Override
    public void abortJob(JobContext context, JobStatus.State state) throws IOException {
        String id = jobId(context);
        Optional<JobAbort> aborted;
        try {
            aborted = uninterrupted(() -> withJob(context, UnfinishedJobs::abort));
        } finally {
            TaskAttempts.removeAll(out.path(), id);
        }
        if (aborted.isEmpty()) {
            LOG.info("{}: there is nothing of job {}", out.path(), id);
            return;
        }
        if (aborted.get() instanceof JobAbort.Begun) {
            LOG.warn(
                    "{}: job {} was begun to be published, and nothing of it is given up: `tidegate"
                            + " commit --job {}` completes it",
                    out.path(),
                    id,
                    out.directory().location());
            return;
        }
        warn(aborted.get().unreadable());
        LOG.info("{}: job {} is given up: {}", out.path(), id, aborted.get());
    }

    private void warn(List<String> unreadable) {
        if (!unreadable.isEmpty()) {
            LOG.warn(
                    "{}: these records of uploads could not be read, and `tidegate sweep` ends what"
                            + " is left of them: {}",
                    out.path(),
                    unreadable);
        }
    }

    /**
     * Whether every process may repeat {@link #commitJob}: if there is a {@code _SUCCESS}, by which
     * it knows that the job is complete.
     */
    @Override
    public boolean isCommitJobRepeatable(JobContext context) {
        return hasSuccessMarker(context.getConfiguration());
    }

    /** True: the store has the files of the tasks that were committed. */
    @Override
    public boolean isRecoverySupported(JobContext context) {
        return true;
    }

    /** Does nothing: the commit of the job finds the files of the task. */
    @Override
    public void recoverTask(TaskAttemptContext context) {}

    // The tasks.

    /**
     * {@inheritDoc} From here on this process can create files below the work path.
     *
     * @throws IOException if the job was not set up, or is over
     */
    @Override
    public void setupTask(TaskAttemptContext context) throws IOException {
        WorkPath path = workPath(context);
        TaskAttempts.add(path, withJob(context, job -> job.attempt(path.task(), path.attempt())));
    }

    /** True, also without files: of a task's attempts the last one that is committed counts. */
    @Override
    public boolean needsTaskCommit(TaskAttemptContext context) {
        return true;
    }

    /**
     * Makes the attempt's closed files those of the task. Nothing is visible. After a failure it
     * can be repeated, or the attempt aborted.
     *
     * @throws IOException if the job is over, if the attempt was given up or has a file that is not
     *     closed, and if this process has not set up the attempt
     */
    @Override
    public void commitTask(TaskAttemptContext context) throws IOException {
        WorkPath path = workPath(context);
        TaskAttempt attempt =
                TaskAttempts.find(path)
                        .orElseThrow(
                                () ->
                                        new PathIOException(
                                                path.path().toString(),
                                                "this process has not set the attempt up, or has"
                                                        + " ended it"))
                        .attempt();
        try {
            attempt.commit();
        } catch (IOException e) {
            throw Failures.of(path.path(), e);
        }
        TaskAttempts.remove(path);
    }

    /** Gives the attempt up, of whatever process it is, also when interrupted. May be repeated. */
    @Override
    public void abortTask(TaskAttemptContext context) throws IOException {
        WorkPath path = workPath(context);
        TaskAttempts.remove(path);
        AttemptAbort aborted =
                uninterrupted(
                        () ->
                                withJob(
                                        context,
                                        job -> job.abortAttempt(path.task(), path.attempt())));
        if (aborted instanceof AttemptAbort.LeftToJob) {
            LOG.warn(
                    "{}: the attempt was committed before it was given up: a driver that commits"
                            + " the job now may still publish it",
                    path.path());
        } else if (aborted instanceof AttemptAbort.JobBegun) {
            LOG.warn(
                    "{}: the attempt is not given up, because the job is being published, perhaps"
                            + " with its files",
                    path.path());
        } else {
            LOG.debug("{}: {}", path.path(), aborted);
        }
    }

    private interface Abort<T> {
        T run() throws IOException;
    }

    /**
     * No call of an interrupted thread would begin, and Spark interrupts a task before the abort.
     */
    private static <T> T uninterrupted(Abort<T> abort) throws IOException {
        boolean isInterrupted = Thread.interrupted();
        try {
            return abort.run();
        } finally {
            if (isInterrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** None: Spark then refuses to overwrite single partitions. */
    @Override
    public boolean hasCapability(String capability) {
        return false;
    }

    @Override
    public String toString() {
        return "TidegateCommitter of " + workPath;
    }
}
