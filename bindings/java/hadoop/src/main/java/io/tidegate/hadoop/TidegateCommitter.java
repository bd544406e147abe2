package io.tidegate.hadoop;

import io.tidegate.AttemptAbort;
import io.tidegate.CommittedJob;
import io.tidegate.FoundJob;
import io.tidegate.Job;
import io.tidegate.JobAbort;
import io.tidegate.JobSettings;
import io.tidegate.TaskAttempt;
import io.tidegate.TidegateException;

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
import java.util.concurrent.TimeUnit;

/**
 * Commits the output of jobs of Hadoop and Spark: {@link Job} has what holds.
 *
 * <p>Tasks write below {@link #getWorkPath()}, and each file is uploaded once, on its final key.
 * Nobody sees a file before {@link #commitJob}. From the moment when that begins to publish, every
 * process can complete the job: a repeated {@code commitJob}, {@code tidegate commit --job}, or a
 * later job with the setting {@code fs.tidegate.committer.roll_forward}. The sessions of tasks and
 * executors that died are ended with the job.
 *
 * <p>Driver and tasks have the same job if they have the same output directory and id: the setting
 * {@code fs.tidegate.committer.job_id}, else the one that Spark gives to a write, else the id that
 * MapReduce gives to a job.
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
            String setting = "fs." + fs.getScheme() + ".impl";
            throw new PathIOException(
                    out.toString(),
                    "TidegateCommitter commits files of TidegateFileSystem, and this is a path of "
                            + fs.getClass().getName()
                            + ": set "
                            + setting
                            + " to "
                            + TidegateFileSystem.class.getName());
        }
        this.out = ours.locate(out);
        workPath = workPath(context).path();
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
            return work.with(Job.of(out.store().within(out.key()), id));
        } catch (IOException e) {
            throw Failures.of(out.path(), e);
        }
    }

    // The driver.

    /**
     * {@inheritDoc} May be repeated while the job is open.
     *
     * @throws IOException if a job of this id was committed or given up before
     */
    @Override
    public void setupJob(JobContext context) throws IOException {
        JobSettings settings = settings(context.getConfiguration());
        for (FoundJob earlier : withJob(context, job -> job.setUp(settings))) {
            if (earlier.failure().isPresent()) {
                LOG.warn(
                        "{}: the earlier job {} could not be brought to its end",
                        out.path(),
                        earlier.id(),
                        earlier.failure().get());
            } else {
                LOG.info("{}: the earlier job {}: {}", out.path(), earlier.id(), earlier.outcome());
            }
        }
    }

    private static JobSettings settings(Configuration conf) throws IOException {
        JobSettings settings =
                JobSettings.defaults()
                        .withSuccessMarker(
                                conf.getBoolean(
                                        FileOutputCommitter.SUCCESSFUL_JOB_OUTPUT_DIR_MARKER, true))
                        .withRollForwardEarlier(conf.getBoolean(ROLL_FORWARD, false));
        if (conf.getTrimmed(LIFETIME, "").isEmpty()) {
            return settings;
        }
        try {
            long seconds = conf.getTimeDuration(LIFETIME, 0, TimeUnit.SECONDS);
            return settings.withLifetime(Duration.ofSeconds(seconds));
        } catch (IllegalArgumentException e) {
            throw new IOException(LIFETIME + " is no time such as 12h: " + conf.get(LIFETIME), e);
        }
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
        JobAbort aborted;
        try {
            aborted = withJob(context, Job::abort);
        } catch (IOException e) {
            if (!isOver(e)) {
                throw e;
            }
            LOG.info("{}: there is nothing of job {}", out.path(), jobId(context));
            TaskAttempts.removeAll(out.path(), jobId(context));
            return;
        }
        TaskAttempts.removeAll(out.path(), jobId(context));
        if (aborted instanceof JobAbort.Begun) {
            LOG.warn(
                    "{}: job {} was begun to be published, and nothing of it is given up: `tidegate"
                            + " commit --job {}` completes it",
                    out.path(),
                    jobId(context),
                    out.store().within(out.key()).location());
            return;
        }
        if (aborted instanceof JobAbort.Abandoned abandoned) {
            warn(abandoned.unreadable());
        } else if (aborted instanceof JobAbort.Removed removed) {
            warn(removed.unreadable());
        }
        LOG.info("{}: job {} is given up: {}", out.path(), jobId(context), aborted);
    }

    /** Whether a failure says that there is nothing of the job. */
    private static boolean isOver(IOException failure) {
        return failure.getCause() instanceof TidegateException known
                && known.kind() == TidegateException.Kind.NOT_FOUND;
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

    /** True: every process may repeat {@link #commitJob}. */
    @Override
    public boolean isCommitJobRepeatable(JobContext context) {
        return true;
    }

    /** False: a second driver runs all tasks again. */
    @Override
    public boolean isRecoverySupported(JobContext context) {
        return false;
    }

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

    /** Gives the attempt up, of whatever process it is. May be repeated. */
    @Override
    public void abortTask(TaskAttemptContext context) throws IOException {
        WorkPath path = workPath(context);
        Optional<TaskAttempts.Attempt> here = TaskAttempts.find(path);
        AttemptAbort aborted =
                withJob(
                        context,
                        job ->
                                here.isPresent()
                                        ? here.get().attempt().abort()
                                        : job.abortAttempt(path.task(), path.attempt()));
        TaskAttempts.remove(path);
        LOG.debug("{}: {}", path.path(), aborted);
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
