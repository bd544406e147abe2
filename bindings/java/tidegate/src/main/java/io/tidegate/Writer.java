package io.tidegate;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.lang.System.Logger.Level;
import java.nio.channels.AsynchronousCloseException;
import java.time.Duration;
import java.util.Optional;
import java.util.function.Function;

/**
 * Writes one object, which becomes visible by {@link #finish()} and by nothing else.
 *
 * <p>{@link #close()} before {@code finish} discards it, so that an exception in a {@code try (…)}
 * publishes nothing. So do a write that fails, an interrupt, an exit of the program, and garbage
 * collection, which is logged as a warning of the {@link System.Logger} {@code io.tidegate}. After
 * a failed write every later call fails with {@link TidegateException.Kind#CLOSED}.
 *
 * <pre>{@code
 * try (Writer writer = store.writer("a/b.json")) {
 *     writer.write(bytes);
 *     writer.finish();
 * }
 * }</pre>
 *
 * <p>One thread writes at a time; others wait for it. {@code close} and {@code abort} may be called
 * at any time: a call of another thread then ends with {@link AsynchronousCloseException}.
 */
public final class Writer extends OpenWriter {
    private static final System.Logger LOGGER = System.getLogger("io.tidegate");

    /** Stands for the lifetime that the library chooses. */
    static final long NO_LIFETIME = -1;

    /** The writer that a native method has opened. */
    Writer(Call.Reply reply, String key) throws IOException {
        super(
                reply,
                key,
                "the writer of "
                        + key
                        + " was garbage collected before finish(): nothing was published");
    }

    /**
     * With the strategy {@code journal}: makes all bytes survive a loss of power, and says how many
     * that are.
     *
     * @throws TidegateException of kind {@code UNSUPPORTED} with other strategies, and the writer
     *     goes on
     */
    public long sync() throws IOException {
        return exclusively(
                () -> {
                    passOn();
                    return Call.await(handle, Native::sync).value();
                });
    }

    /** Ends the write, as {@link #prepare(Duration)}; the upload waits six days for its commit. */
    public Pending prepare() throws IOException {
        return prepare(NO_LIFETIME);
    }

    /**
     * Ends the write with all bytes at the store and nothing visible. Any process publishes the
     * object with {@link Store#commit}, which decides conditions such as {@code create_only}, or
     * gives it up with {@link Store#abandon}. A warning of the result is logged, too.
     *
     * @param lifetime until when no sweep ends the upload; the store itself may end it earlier
     * @throws TidegateException and the upload was discarded; of kind {@code UNSUPPORTED} with the
     *     strategy {@code journal}
     * @throws InterruptedIOException if the thread was interrupted, and the upload was discarded
     */
    public Pending prepare(Duration lifetime) throws IOException {
        return prepare(millis(lifetime));
    }

    private Pending prepare(long lifetimeMillis) throws IOException {
        return unpublished(
                (writer, token) -> Native.prepare(writer, token, lifetimeMillis),
                upload -> {
                    ended();
                    return new Pending(upload);
                });
    }

    /** Makes a point, as {@link #persist(Duration)}, that can be resumed for six days. */
    public Resumable persist() throws IOException {
        return persist(NO_LIFETIME);
    }

    /**
     * Makes all bytes so far outlast this process and this machine. Any process goes on from this
     * point with {@link Store#resume}, or gives the upload up with {@link Store#abandon}. The
     * writer goes on, and from now on keeps the session when it fails or is closed; {@link #abort}
     * ends it.
     *
     * @param lifetime until when no sweep ends the upload; the store itself may end it earlier
     * @throws TidegateException of kind {@code UNSUPPORTED}, and the writer goes on, where the
     *     store can't do that and with the strategy {@code journal}
     * @throws InterruptedIOException if the thread was interrupted, and the writer has failed
     */
    public Resumable persist(Duration lifetime) throws IOException {
        return persist(millis(lifetime));
    }

    private Resumable persist(long lifetimeMillis) throws IOException {
        return unpublished(
                (writer, token) -> Native.persist(writer, token, lifetimeMillis), Resumable::new);
    }

    /** Makes a call that gives an upload which any process can end. */
    private <T extends Unpublished> T unpublished(
            Call.Begin begin, Function<Wire.Decoder, T> described) throws IOException {
        return exclusively(
                () -> {
                    passOn();
                    Call.Reply reply = Call.await(handle, begin);
                    return warned(described.apply(new Wire.Decoder(reply.payload())));
                });
    }

    static long millis(Duration lifetime) throws TidegateException {
        if (lifetime.isNegative()) {
            throw TidegateException.invalid("a lifetime can't be " + lifetime, null);
        }
        return lifetime.toMillis();
    }

    /** Logs why the store may end an upload before its lifetime. */
    static <T extends Unpublished> T warned(T upload) {
        if (upload.warning().isPresent()) {
            LOGGER.log(Level.WARNING, upload + ": " + upload.warning().get());
        }
        return upload;
    }

    /**
     * Publishes the object: when this returns, the whole object is visible.
     *
     * @return the object as the store describes it
     * @throws TidegateException and nothing was published, unless the kind is {@code UNCERTAIN}:
     *     then look with {@link Store#stat}
     * @throws InterruptedIOException if the thread was interrupted: if the store was publishing the
     *     object at that moment, look with {@link Store#stat}
     */
    public ObjectInfo finish() throws IOException {
        return exclusively(
                () -> {
                    passOn();
                    ObjectInfo object = ObjectInfo.of(Call.await(handle, Native::finish));
                    finished();
                    return object;
                });
    }

    @Override
    Optional<ObjectInfo> end() throws IOException {
        return Optional.of(finish());
    }
}
