package io.tidegate;

import java.io.IOException;

/**
 * One attempt of a task, in one process: {@link Job#attempt}. Several attempts of a task may run at
 * the same time, on any machines: the files of the last one that commits count.
 *
 * <p>Any number of threads may use it. Dropping it does nothing: {@link #abort}, or the end of the
 * job, abandons what it has written.
 */
public final class TaskAttempt {
    private final Job job;
    private final String task;
    private final String attempt;
    private final Handle handle;
    private volatile boolean isGivenUp;

    TaskAttempt(Job job, String task, String attempt, Call.Reply reply) {
        this.job = job;
        this.task = task;
        this.attempt = attempt;
        handle = new Handle(reply.value());
    }

    /** The job. */
    public Job job() {
        return job;
    }

    /** Opens a file without options. */
    public TaskWriter writer(String key) throws IOException {
        return writer(key, Options.none());
    }

    /**
     * Opens a file on its final key. Before its upload is opened, a record of it is in the store:
     * whatever dies, the end of the job abandons the upload.
     *
     * @param key relative to the output directory
     * @param options those of a write, but not the strategy {@code journal}. A condition, such as
     *     {@code create_only}, is decided when the job is committed.
     * @throws TidegateException of kind {@code INVALID_INPUT} if the attempt has a file of this
     *     key, if the job keeps the key for itself, and if the store may end the upload before the
     *     job's lifetime; {@code UNSUPPORTED} for the strategy {@code journal}; {@code CLOSED} once
     *     the lifetime or the job is over, and after {@link #abort}
     */
    public TaskWriter writer(String key, Options options) throws IOException {
        checkOpen();
        byte[] encodedKey = Wire.utf8(key);
        byte[] encoded = options.encoded();
        Call.Reply reply =
                await(
                        (store, token, of) ->
                                Native.openTaskWriter(store, token, of, encodedKey, encoded));
        return new TaskWriter(reply, key);
    }

    /**
     * Makes the attempt's finished files those of the task, in place of any earlier attempt's.
     * Nothing is visible until the job is committed. Files that were discarded do not count;
     * without one that is lost the attempt is not committed ({@link TaskWriter}).
     *
     * <p>May be repeated: after an interrupt the attempt may be committed or not. A commit at the
     * same time as the driver's may succeed and not count.
     *
     * @throws TidegateException of kind {@code CLOSED} if the job is over or becomes so meanwhile,
     *     or the attempt was given up: then its uploads are abandoned, and it leaves nothing,
     *     unless it was committed before, which is left to the end of the job; {@code
     *     INVALID_INPUT} if a file is open or lost; {@code TOO_LARGE} if the files are more than a
     *     driver reads. Otherwise those of the store: repeat it.
     */
    public void commit() throws IOException {
        checkOpen();
        await(Native::commitAttempt);
    }

    /**
     * Gives the attempt up, as {@link Job#abortAttempt}: no file can be opened any more, and it
     * can't be committed. May be repeated after a failure.
     */
    public AttemptAbort abort() throws IOException {
        isGivenUp = true;
        return job.abortAttempt(task, attempt);
    }

    private void checkOpen() throws TidegateException {
        if (isGivenUp) {
            throw new TidegateException(
                    TidegateException.Kind.CLOSED, this + " was given up before", null);
        }
    }

    private interface Begin {
        void with(long store, long token, long attempt) throws TidegateException;
    }

    /** Carries out a call of the attempt on the store of the job. */
    private Call.Reply await(Begin begin) throws IOException {
        Handle out = job.out().handle();
        return Call.await(
                handle,
                (attempt, token) ->
                        out.use(
                                store -> {
                                    begin.with(store, token, attempt);
                                    return null;
                                }));
    }

    @Override
    public String toString() {
        return "TaskAttempt " + attempt + " of task " + task + " of " + job;
    }
}
