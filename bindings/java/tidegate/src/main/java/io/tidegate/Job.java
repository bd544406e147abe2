package io.tidegate;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Optional;

/**
 * Many tasks on many machines that write files below one directory, and a driver that publishes all
 * of them. A value of this type has no state: every process that knows the directory and the id has
 * the same job. {@code docs/PENDING.md} says what holds.
 *
 * <pre>{@code
 * Job job = Job.of(out, "20261130-7f3a"); // an id of its own for each job
 * job.setUp(); // the driver
 *
 * TaskAttempt attempt = job.attempt("task-0", "task-0-attempt-0"); // on any machine
 * try (TaskWriter writer = attempt.writer("part-0.csv")) {
 *     writer.write(bytes);
 *     writer.finish();
 * }
 * attempt.commit(); // nothing is visible
 *
 * job.commit(); // the driver; again after a crash
 * }</pre>
 */
public final class Job {
    private final Store out;
    private final String id;
    private final byte[] encodedId;

    private Job(Store out, String id, byte[] encodedId) {
        this.out = out;
        this.id = id;
        this.encodedId = encodedId;
    }

    /**
     * The job {@code id} that writes below {@code out}, the output directory. Sends nothing.
     *
     * @param id unique among all jobs of the directory, also later ones
     * @throws TidegateException of kind {@code INVALID_INPUT} if the id has other characters than
     *     ASCII letters, digits, {@code -}, {@code _} and {@code .}, is longer than 200 bytes, or
     *     has only dots
     */
    public static Job of(Store out, String id) throws IOException {
        byte[] encodedId = Wire.utf8(id);
        out.handle()
                .use(
                        store -> {
                            Native.checkJob(store, encodedId);
                            return null;
                        });
        return new Job(out, id, encodedId);
    }

    /** The id. */
    public String id() {
        return id;
    }

    /** The store of the output directory. */
    public Store out() {
        return out;
    }

    /** Sets the job up, as {@link #setUp(JobSettings)}, with the {@link JobSettings#defaults}. */
    public List<FoundJob> setUp() throws IOException {
        return setUp(JobSettings.defaults());
    }

    /**
     * Sets the job up, before its first attempt. May be repeated while the job is open; the first
     * settings stay. After an interrupt they are written or not: repeat it.
     *
     * @return the jobs that were brought to their end: {@link JobSettings#withRollForwardEarlier},
     *     {@link JobSettings#withCompleteBegun}
     * @throws TidegateException of kind {@code CLOSED} if a job of this id was committed or given
     *     up and is not removed yet; {@code INVALID_INPUT} if its settings are another program's
     */
    public List<FoundJob> setUp(JobSettings settings) throws IOException {
        long lifetimeMillis = settings.lifetimeMillis();
        return FoundJob.all(
                await(
                        (store, token) ->
                                Native.setUpJob(
                                        store,
                                        token,
                                        encodedId,
                                        lifetimeMillis,
                                        settings.hasSuccessMarker(),
                                        settings.rollsForward(),
                                        settings.completesBegun())));
    }

    /**
     * Begins an attempt of a task.
     *
     * @param task unique in the job
     * @param attempt unique in the task
     * @throws TidegateException of kind {@code CLOSED} if the job is being given up, is over, or
     *     was not set up (once its commit was begun, the attempt's own commit may be the one that
     *     fails); {@code INVALID_INPUT} if a name has other characters than an id ({@link #of})
     */
    public TaskAttempt attempt(String task, String attempt) throws IOException {
        byte[] encodedTask = Wire.utf8(task);
        byte[] encodedAttempt = Wire.utf8(attempt);
        Call.Reply reply =
                await(
                        (store, token) ->
                                Native.beginAttempt(
                                        store, token, encodedId, encodedTask, encodedAttempt));
        return new TaskAttempt(this, task, attempt, reply);
    }

    /**
     * Gives an attempt up: from here on nobody commits it, and its uploads, of any process, are
     * abandoned by their records. An upload that another process is just opening is left to the end
     * of the job.
     *
     * @throws TidegateException of kind {@code INVALID_INPUT} if the attempt's manifest can't be
     *     read, and nothing is abandoned; or if a record can't be read, and the other uploads are
     *     abandoned. Otherwise those of the store: repeat it.
     */
    public AttemptAbort abortAttempt(String task, String attempt) throws IOException {
        byte[] encodedTask = Wire.utf8(task);
        byte[] encodedAttempt = Wire.utf8(attempt);
        Call.Reply reply =
                await(
                        (store, token) ->
                                Native.abortAttempt(
                                        store, token, encodedId, encodedTask, encodedAttempt));
        return JobReplies.attemptAbort(new Wire.Decoder(reply.payload()));
    }

    /**
     * Publishes the files of all tasks, then writes {@code _SUCCESS}, abandons the uploads of
     * attempts that do not count, and removes the work path. Call it when the attempts that are to
     * count have returned from {@link TaskAttempt#commit}.
     *
     * <p>May be repeated at any point, by any process, and by several at the same time: one set of
     * files is published. Each file is whole or not there; the files become visible one after the
     * other, and {@code _SUCCESS} comes last. After an interrupt or a crash, commit again, or
     * {@link #rollForward}.
     *
     * @throws TidegateException and nothing is visible, of kind {@code INVALID_INPUT} if the
     *     manifest of a task is not this job's, or two files have one key; {@code TOO_LARGE} if the
     *     manifests have more than 64 MiB; {@code CLOSED} if the job is being given up; {@code
     *     NOT_FOUND} if there is no such job, or it has ended and {@code _SUCCESS} does not say so.
     *     Of kind {@code SESSION_LOST}, {@code ALREADY_EXISTS} or {@code REPLACED} if an upload
     *     can't be published: if the commit was begun, the message says how to end the job. All
     *     others: commit again.
     */
    public CommittedJob commit() throws IOException {
        Call.Reply reply = await((store, token) -> Native.commitJob(store, token, encodedId));
        return JobReplies.committed(new Wire.Decoder(reply.payload()));
    }

    /**
     * Abandons the uploads of all attempts, and removes the work path. Once the job's commit was
     * begun, abandons nothing and says so. May be repeated, by any process.
     *
     * @throws TidegateException of kind {@code NOT_FOUND} if there is nothing of the job. Otherwise
     *     those of the store: repeat it.
     */
    public JobAbort abort() throws IOException {
        Call.Reply reply = await((store, token) -> Native.abortJob(store, token, encodedId));
        return JobReplies.abort(new Wire.Decoder(reply.payload()));
    }

    /**
     * Completes every job of a directory whose commit was begun, and ends every job whose end was
     * interrupted. Other jobs are left alone. If one fails, the others are still tried. May be
     * repeated, by any process, while jobs are at work.
     *
     * @throws TidegateException of the listing; each job has its own
     */
    public static List<FoundJob> rollForward(Store out) throws IOException {
        return FoundJob.all(Call.await(out.handle(), Native::rollForwardJobs));
    }

    /**
     * Gives up every job of a directory whose commit is not begun, as {@link #abort}. A job that is
     * at work fails.
     *
     * @throws TidegateException of the listing; each job has its own
     */
    public static List<FoundJob> abandonUnfinished(Store out) throws IOException {
        return FoundJob.all(Call.await(out.handle(), Native::abandonUnfinishedJobs));
    }

    /**
     * Gives up every job of a directory that is to be removed, unless one of them is begun: then
     * gives up none. May be repeated.
     *
     * @throws TidegateException of kind {@code CLOSED} if a job is begun: it has to be completed
     *     first
     */
    public static List<FoundJob> giveUpAll(Store out) throws IOException {
        return FoundJob.all(Call.await(out.handle(), Native::giveUpAllJobs));
    }

    /**
     * The id of the job that has written the {@code _SUCCESS} of a directory; empty if there is
     * none, or another program's.
     */
    public static Optional<String> lastCompleted(Store out) throws IOException {
        byte[] found = Call.await(out.handle(), Native::lastCompletedJob).payload();
        return Optional.ofNullable(found).map(text -> new String(text, StandardCharsets.UTF_8));
    }

    private Call.Reply await(Call.Begin begin) throws IOException {
        return Call.await(out.handle(), begin);
    }

    @Override
    public String toString() {
        return "Job " + id;
    }
}
