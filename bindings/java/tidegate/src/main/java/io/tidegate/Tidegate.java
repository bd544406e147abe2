package io.tidegate;

import java.io.IOException;
import java.time.Duration;
import java.util.List;

/**
 * An engine: one memory budget, the limits of requests, and the threads that carry out calls. Any
 * number of threads may use it, virtual ones too: no call keeps a carrier while it waits.
 *
 * <p>Equal options give the same engine as long as anything refers to it. It ends when neither it
 * nor a store, writer or reader of it is reachable; an exit of the program does not wait for it.
 *
 * <p>Every call that waits ends within 100 ms when its thread is interrupted: calls of channels
 * with {@link java.nio.channels.ClosedByInterruptException}, all others with {@link
 * java.io.InterruptedIOException}. The thread stays interrupted. What the store was carrying out at
 * that moment may still be done.
 */
public final class Tidegate {
    private final Handle handle;
    private final WriteSessionConfig sessions;

    private Tidegate(Handle handle, WriteSessionConfig sessions) {
        this.handle = handle;
        this.sessions = sessions;
    }

    /**
     * The engine without options.
     *
     * @throws TidegateException as {@link #shared(Options)}
     */
    public static Tidegate shared() throws IOException {
        return shared(Options.none());
    }

    /**
     * The engine with these options: {@code memory}, {@code spool}, {@code journal}, {@code
     * concurrency} and others. Starts threads, and sends nothing.
     *
     * @throws TidegateException of kind {@code NATIVE_LIBRARY} if the native library can't be
     *     loaded, {@code INVALID_INPUT} for an option that an engine does not have or a wrong value
     */
    public static Tidegate shared(Options options) throws IOException {
        return shared(options, WriteSessionConfigs.getDefault());
    }

    /**
     * The engine with these options and with the directories of this configuration, by which {@link
     * Store#session} of its stores writes. Configurations without directories leave the engine as
     * it is: one, with one memory budget.
     *
     * @throws TidegateException as {@link #shared(Options)}
     * @throws IOException if a directory can't be made
     */
    public static Tidegate shared(Options options, WriteSessionConfig sessions) throws IOException {
        NativeLibrary.load();
        byte[] encoded = sessions.ofEngine(options).encoded();
        return new Tidegate(new Handle(Native.engine(encoded)), sessions);
    }

    /** Opens a store without options. */
    public Store open(String url) throws IOException {
        return open(url, Options.none());
    }

    /**
     * Opens a store: {@code s3://bucket/prefix}, {@code gs://bucket/prefix}, {@code
     * az://container/prefix}, a directory as a path or {@code file:///path}, or {@code
     * memory://name}. Sends nothing to the store.
     *
     * @param options those of the scheme, such as {@code endpoint_url} and {@code region}
     * @throws TidegateException if the URL or an option is wrong, or there are no credentials
     */
    public Store open(String url, Options options) throws IOException {
        byte[] encodedUrl = Wire.utf8(url);
        byte[] encoded = options.encoded();
        Call.Reply reply =
                Call.await(
                        handle,
                        (engine, token) -> Native.openStore(engine, token, encodedUrl, encoded));
        return new Store(new Handle(reply.value()), sessions);
    }

    /**
     * The uploads in the journal directories of the option {@code journal}: those that a process
     * left, and those that one is writing now. Changes none of them.
     */
    public List<UnfinishedUpload> recover() throws IOException {
        return UnfinishedUpload.all(Call.await(handle, Native::recover).payload());
    }

    /** What the engine holds of its memory budget and its spool now. */
    public Usage usage() throws IOException {
        return Usage.of(handle.use(Native::usage));
    }

    /**
     * Waits until the sessions of all writers that failed or were discarded so far are aborted.
     *
     * @param limit the longest wait
     * @throws TidegateException of kind {@code TIMEOUT} if some are not aborted by then; of another
     *     kind for a session that could not be aborted, whose parts stay at the store until a sweep
     */
    public void waitForAborts(Duration limit) throws IOException {
        long millis = limit.toMillis();
        Call.await(handle, (engine, token) -> Native.waitForAborts(engine, token, millis));
    }
}
