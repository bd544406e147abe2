package io.tidegate;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.channels.WritableByteChannel;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.locks.ReentrantLock;

/** What all writers do with bytes, and how they end. */
abstract sealed class OpenWriter implements AutoCloseable permits Writer, TaskWriter {
    /**
     * The most bytes that one native call copies: about 100 µs, in which a virtual thread keeps its
     * carrier.
     */
    private static final int SLICE = 1 << 20;

    /**
     * How many bytes wait for room, in a copy, when there is none. The rest follows when there is.
     */
    private static final int WAITING = 64 << 10;

    final Handle handle;
    private final String key;
    private final boolean isJournaled;
    private final ReentrantLock lock = new ReentrantLock();
    private volatile PublishingStream stream;
    private volatile long position;
    private volatile boolean hasEnded;
    private volatile boolean isFinished;

    /**
     * The writer that a native method has opened.
     *
     * @param lost what is logged if the writer is garbage collected before it has ended
     */
    OpenWriter(Call.Reply reply, String key, String lost) throws IOException {
        handle = new Handle(reply.value());
        position = new Wire.Decoder(reply.payload()).number();
        this.key = key;
        isJournaled = handle.use(Native::isJournaled);
        handle.warnIfFreed(lost);
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

    /** Passes on bytes that the stream gathers: they were written before. */
    void passOn() throws IOException {
        PublishingStream open = stream;
        if (open != null) {
            open.flush();
        }
    }

    /** Ends the writer as its {@code finish} does; gives the object, if that has published one. */
    abstract Optional<ObjectInfo> end() throws IOException;

    /**
     * Discards the upload, and waits until the store has released the session. A writer that has
     * ended or failed stays as it is. A call of another thread ends first: if that was {@code
     * finish}, the upload may have ended as that wanted; otherwise the session is released in the
     * background.
     */
    public void abort() throws IOException {
        boolean isEnded = hasEnded;
        ended();
        if (isEnded) {
            return;
        }
        if (!lock.tryLock()) {
            // The call that has the writer ends, and drops it.
            discard(true);
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
            discard(true);
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
            discard(false);
        }
    }

    /**
     * This writer as a stream whose {@code close} is {@code finish}. A body of {@code try (…)} that
     * throws must call {@link #abort()}, because {@code close} is not told of the exception.
     *
     * <p>After a failed write every later call fails, {@code close} too, and the upload is
     * discarded. After {@code abort} or {@code close} of the writer, {@code close} of the stream
     * does nothing. One thread at a time. Each call gives the same stream.
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
     * discards the upload.
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

    /** Whether {@code finish} has succeeded, perhaps while another thread called {@link #abort}. */
    public boolean isFinished() {
        return isFinished;
    }

    void finished() {
        isFinished = true;
        ended();
    }

    /** Whether it was finished, prepared, aborted or closed: there is nothing left to end. */
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

    /**
     * Discards the upload as the caller wants it.
     *
     * @param alsoFailed whether a file of a task is discarded that has failed
     */
    private void discard(boolean alsoFailed) throws TidegateException {
        handle.use(
                writer -> {
                    Native.close(writer, alsoFailed);
                    return null;
                });
    }

    /** Discards the upload because bytes may be missing. */
    void lose() throws TidegateException {
        handle.use(
                writer -> {
                    Native.lose(writer);
                    return null;
                });
    }

    interface Work<T> {
        T run() throws IOException;
    }

    /**
     * Makes a call that has the writer to itself. An interrupt discards it, while it waits for its
     * turn too.
     */
    <T> T exclusively(Work<T> work) throws IOException {
        try {
            lock.lockInterruptibly();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            lose();
            throw Call.interrupted();
        }
        try {
            return work.run();
        } catch (InterruptedIOException e) {
            lose();
            throw e;
        } finally {
            lock.unlock();
        }
    }

    @Override
    public String toString() {
        return getClass().getSimpleName() + " of " + key;
    }
}
