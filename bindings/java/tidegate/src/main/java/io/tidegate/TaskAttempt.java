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
     *     job's lifetime; {@code CLOSED} once the lifetime is over
     */
    public TaskWriter writer(String key, Options options) throws IOException {
        checkOpen();
        byte[] encodedKey = Wire.utf8(key);
        byte[] encoded = options.encoded();
        return new TaskWriter(
                await(
                        (of, token) ->
                                job.out()
                                        .handle()
                                        .use(
                                                store -> {
                                                    Native.openTaskWriter(
                                                            store, token, of, encodedKey, encoded);
                                                    return null;
                                                })),
                key);
    }

    /**
     * Makes the attempt's finished files those of the task, in place of any earlier attempt's.
     * Nothing is visible until the job is committed. Files that were discarded do not count. May be
     * repeated: after an interrupt the attempt may be committed or not.
     *
     * @throws TidegateException of kind {@code CLOSED} if the job is over or becomes so meanwhile,
     *     or the attempt was given up: then its uploads are abandoned, and it leaves nothing;
     *     {@code INVALID_INPUT} if a file is open. Otherwise those of the store: repeat it.
     */
    public void commit() throws IOException {
        checkOpen();
        await(
                (of, token) ->
                        job.out()
                                .handle()
                                .use(
                                        store -> {
                                            Native.commitAttempt(store, token, of);
                                            return null;
                                        }));
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

    private Call.Reply await(Call.Begin begin) throws IOException {
        return Call.await(handle, begin);
    }

    @Override
    public String toString() {
        return "TaskAttempt " + attempt + " of task " + task + " of " + job;
    }
}
