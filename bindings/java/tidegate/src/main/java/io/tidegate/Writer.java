package io.tidegate;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.io.OutputStream;
import java.lang.System.Logger.Level;
import java.nio.ByteBuffer;
import java.nio.channels.AsynchronousCloseException;
import java.nio.channels.WritableByteChannel;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.locks.ReentrantLock;
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
public final class Writer implements AutoCloseable {
    private static final System.Logger LOGGER = System.getLogger("io.tidegate");

    /** Stands for the lifetime that the library chooses. */
    static final long NO_LIFETIME = -1;

    /**
     * The most bytes that one native call copies: about 100 µs, in which a virtual thread keeps its
     * carrier.
     */
    private static final int SLICE = 1 << 20;

    /**
     * How many bytes wait for room, in a copy, when there is none. The rest follows when there is.
     */
    private static final int WAITING = 64 << 10;

    private final Handle handle;
    private final String key;
    private final boolean isJournaled;
    private final ReentrantLock lock = new ReentrantLock();
    private volatile PublishingStream stream;
    private volatile long position;
    private volatile boolean hasEnded;

    /** The writer that a native method has opened. */
    Writer(Call.Reply reply, String key) throws IOException {
        handle = new Handle(reply.value());
        position = new Wire.Decoder(reply.payload()).number();
        this.key = key;
        isJournaled = handle.use(Native::isJournaled);
        handle.warnIfFreed(
                "the writer of "
                        + key
                        + " was garbage collected before finish(): nothing was published");
    }

    /** Writes bytes, as {@link #write(ByteBuffer)}. */
    public void write(byte[] bytes) throws IOException {
        write(ByteBuffer.wrap(bytes));
    }

    /** Writes {@code length} bytes from {@code start} on, as {@link #write(ByteBuffer)}. */
    public void write(byte[] bytes, int start, int length) throws IOException {
        write(ByteBuffer.wrap(bytes, start, length));
    }

    /**
     * Writes all that remains of a buffer, and moves its position to its limit. The bytes are
     * copied: the buffer is the caller's again when this returns, and must not change before. Waits
     * while the memory budget is used up, or as many parts are in flight as the strategy allows.
     *
     * @throws TidegateException and the writer has failed
     * @throws InterruptedIOException if the thread was interrupted, and the writer has failed
     */
    public void write(ByteBuffer bytes) throws IOException {
        exclusively(
                () -> {
                    passOn();
                    while (bytes.hasRemaining()) {
                        // A store that keeps up never has it wait.
                        if (Thread.currentThread().isInterrupted()) {
                            throw Call.interrupted();
                        }
                        Bytes slice = Bytes.toRead(bytes, SLICE);
                        int taken =
                                handle.use(
                                        writer ->
                                                Native.tryWrite(
                                                        writer,
                                                        slice.array(),
                                                        slice.direct(),
                                                        slice.start(),
                                                        slice.length()));
                        moved(bytes, taken);
                        if (taken < slice.length()) {
                            Bytes waiting = Bytes.toRead(bytes, WAITING);
                            Call.await(
                                    handle,
                                    (writer, token) ->
                                            Native.write(
                                                    writer,
                                                    token,
                                                    waiting.array(),
                                                    waiting.direct(),
                                                    waiting.start(),
                                                    waiting.length()));
                            moved(bytes, waiting.length());
                        }
                    }
                    return null;
                });
    }

    // The caller has the lock; others only read.
    @SuppressWarnings("NonAtomicVolatileUpdate")
    private void moved(ByteBuffer bytes, int count) {
        bytes.position(bytes.position() + count);
        position += count;
    }

    /**
     * How many bytes were written by now; of a writer that was resumed, those before it too. Not
     * those that a stream gathers ({@link #asOutputStream}).
     */
    public long position() {
        return position;
    }

    /** Whether bytes are durable when {@code write} has returned. */
    boolean isJournaled() {
        return isJournaled;
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

    /** Passes on bytes that the stream gathers: they were written before. */
    void passOn() throws IOException {
        PublishingStream open = stream;
        if (open != null) {
            open.flush();
        }
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
                    ended();
                    return object;
                });
    }

    /**
     * Discards the upload, and waits until the store has released the session. A writer that has
     * ended or failed stays as it is. A call of another thread ends first: if that was {@link
     * #finish}, the object may be published; otherwise the session is released in the background.
     */
    public void abort() throws IOException {
        boolean isEnded = hasEnded;
        ended();
        if (isEnded) {
            return;
        }
        if (!lock.tryLock()) {
            // The call that has the writer ends, and drops it.
            discard();
            try {
                lock.lockInterruptibly();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw Call.interrupted();
            }
            lock.unlock();
            return;
        }
        try {
            Call.await(handle, Native::abort);
        } catch (TidegateException e) {
            if (e.kind() != TidegateException.Kind.CLOSED) {
                throw e;
            }
        } catch (InterruptedIOException e) {
            discard();
            throw e;
        } finally {
            lock.unlock();
        }
    }

    /**
     * Discards the upload, unless it was finished. Does not wait: {@link Tidegate#waitForAborts}
     * does.
     */
    @Override
    public void close() throws IOException {
        if (!hasEnded) {
            ended();
            discard();
        }
    }

    /**
     * This writer as a stream whose {@code close} publishes the object. A body of {@code try (…)}
     * that throws must call {@link #abort()}, because {@code close} is not told of the exception.
     *
     * <p>After a failed write every later call fails, {@code close} too, and nothing is published.
     * After {@code abort} or {@code close} of the writer, {@code close} of the stream does nothing.
     * One thread at a time. Each call gives the same stream.
     */
    public OutputStream asOutputStream() {
        lock.lock();
        try {
            if (stream == null) {
                stream = new PublishingStream(new Publication(this));
            }
            return stream;
        } finally {
            lock.unlock();
        }
    }

    /**
     * The same as a channel: see {@link #asOutputStream()}. An interrupt closes the channel, and
     * publishes nothing.
     */
    public WritableByteChannel asChannel() {
        return publishing();
    }

    PublishingChannel publishing() {
        return new PublishingChannel(new Publication(this));
    }

    /** Fails this result if the writer is garbage collected before it has ended. */
    void failIfCollected(CompletableFuture<?> result) {
        handle.failIfFreed(result);
    }

    /** Whether it was finished, prepared, aborted or closed: there is nothing left to publish. */
    boolean hasEnded() {
        return hasEnded;
    }

    Handle handle() {
        return handle;
    }

    void ended() {
        hasEnded = true;
        handle.warnIfFreed(null);
    }

    void discard() throws TidegateException {
        handle.use(
                writer -> {
                    Native.discard(writer);
                    return null;
                });
    }

    private interface Work<T> {
        T run() throws IOException;
    }

    /**
     * Makes a call that has the writer to itself. An interrupt discards it, while it waits for its
     * turn too.
     */
    private <T> T exclusively(Work<T> work) throws IOException {
        try {
            lock.lockInterruptibly();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            discard();
            throw Call.interrupted();
        }
        try {
            return work.run();
        } catch (InterruptedIOException e) {
            discard();
            throw e;
        } finally {
            lock.unlock();
        }
    }

    @Override
    public String toString() {
        return "Writer of " + key;
    }
}
