package io.tidegate;

import java.io.IOException;
import java.io.InputStream;
import java.io.InterruptedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.NonWritableChannelException;
import java.nio.channels.SeekableByteChannel;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.locks.ReentrantLock;

/**
 * Reads one object, as it was when the reader was opened: if it is replaced, reads fail with {@link
 * TidegateException.Kind#REPLACED}.
 *
 * <p>{@link #read(ByteBuffer)} gives the bytes in order, read ahead; if all of them are read from
 * the first one on, the last are given only after the checksum of the whole has matched. After it
 * has failed it fails for ever, so that a torn object never looks whole. Any number of threads may
 * read at positions, at once; of reads in order, one waits for the other.
 *
 * <p>An interrupt ends a call within 100 ms and closes the channel, as {@link
 * java.nio.channels.InterruptibleChannel} says; a close by another thread ends it with {@link
 * java.nio.channels.AsynchronousCloseException}.
 */
public final class Reader implements SeekableByteChannel {
    private final Handle handle;
    private final ObjectInfo object;
    private final boolean isRandom;
    private final ReentrantLock lock = new ReentrantLock();
    private volatile long position;
    private volatile boolean isClosed;

    Reader(Handle handle, ObjectInfo object, boolean isRandom) {
        this.handle = handle;
        this.object = object;
        this.isRandom = isRandom;
    }

    /** The object that is read. */
    public ObjectInfo object() {
        return object;
    }

    /** The size of the object in bytes. */
    @Override
    public long size() {
        return object.sizeOrMinusOne();
    }

    /**
     * Reads the next bytes, as many as are there.
     *
     * @return how many; -1 at the end of the object
     * @throws TidegateException and all later reads in order fail too
     * @throws ClosedByInterruptException if the thread was interrupted
     */
    @Override
    public int read(ByteBuffer to) throws IOException {
        return interruptibly(
                () -> {
                    try {
                        lock.lockInterruptibly();
                    } catch (InterruptedException e) {
                        Thread.currentThread().interrupt();
                        throw Call.interrupted();
                    }
                    try {
                        long from = position;
                        int read = next(from, to);
                        position = from + Math.max(read, 0);
                        return read;
                    } finally {
                        lock.unlock();
                    }
                });
    }

    private int next(long from, ByteBuffer to) throws IOException {
        if (isRandom) {
            return at(from, to);
        }
        Bytes target = Bytes.toFill(to);
        if (target.length() == 0) {
            return 0;
        }
        if (from >= size()) {
            return -1;
        }
        while (true) {
            int taken =
                    handle.use(
                            reader ->
                                    Native.take(
                                            reader,
                                            from,
                                            target.array(),
                                            target.direct(),
                                            target.start(),
                                            target.length()));
            if (taken > 0) {
                to.position(to.position() + taken);
                return taken;
            }
            Call.await(handle, (reader, token) -> Native.fill(reader, token, from));
        }
    }

    /**
     * Reads bytes from {@code position} on until the buffer is full or the object ends. One
     * request, and none past the end. The position of the channel stays.
     *
     * @param position in the object, from 0
     * @param to a direct buffer is filled without a copy in between
     * @return how many bytes; -1 at or past the end of the object
     */
    public int read(long position, ByteBuffer to) throws IOException {
        return interruptibly(() -> at(position, to));
    }

    private int at(long position, ByteBuffer to) throws IOException {
        Bytes target = Bytes.toFill(to);
        if (target.length() == 0) {
            return 0;
        }
        if (position >= size()) {
            return -1;
        }
        Call.Begin begin =
                (reader, token) ->
                        Native.readAt(
                                reader,
                                token,
                                position,
                                target.array(),
                                target.direct(),
                                target.start(),
                                target.length());
        int read = (int) Call.await(handle, begin).value();
        to.position(to.position() + read);
        return read;
    }

    /**
     * Fills the buffers of all ranges whole. The ranges may come in any order; those that lie close
     * together share a request.
     *
     * @throws TidegateException of kind {@code INVALID_INPUT} if a range does not lie within the
     *     object, or two overlap; after a failure the buffers may have any content, and their
     *     positions are as before
     */
    public void readRanges(List<Range> ranges) throws IOException {
        List<Range> sorted =
                ranges.stream().sorted(Comparator.comparingLong(Range::position)).toList();
        Object[] buffers = new Object[sorted.size()];
        long[] bounds = new long[4 * sorted.size()];
        for (int number = 0; number < buffers.length; number++) {
            Bytes target = Bytes.toFill(sorted.get(number).buffer());
            boolean isDirect = target.direct() != null;
            buffers[number] = isDirect ? target.direct() : target.array();
            bounds[4 * number] = isDirect ? 1 : 0;
            bounds[4 * number + 1] = target.start();
            bounds[4 * number + 2] = target.length();
            bounds[4 * number + 3] = sorted.get(number).position();
        }
        interruptibly(
                () ->
                        Call.await(
                                handle,
                                (reader, token) ->
                                        Native.readRanges(reader, token, buffers, bounds)));
        for (Range range : sorted) {
            range.buffer().position(range.buffer().limit());
        }
    }

    /**
     * This reader as a stream, which reads on from the position of the channel; its {@code close}
     * closes the reader. An interrupt ends a read with {@link InterruptedIOException}. One thread
     * at a time.
     */
    public InputStream asInputStream() {
        return new ReaderStream(this);
    }

    @Override
    public long position() throws IOException {
        checkOpen();
        return position;
    }

    /** Sets where the next bytes are read, which may be past the end. Sends nothing. */
    @Override
    public Reader position(long newPosition) throws IOException {
        checkOpen();
        if (newPosition < 0) {
            throw new IllegalArgumentException("a position is from 0, and not " + newPosition);
        }
        position = newPosition;
        return this;
    }

    /** Fails: an object can't be changed. */
    @Override
    public int write(ByteBuffer from) {
        throw new NonWritableChannelException();
    }

    /** Fails: an object can't be changed. */
    @Override
    public Reader truncate(long size) {
        throw new NonWritableChannelException();
    }

    @Override
    public boolean isOpen() {
        return !isClosed;
    }

    /** Ends all calls that are under way. */
    @Override
    public void close() throws IOException {
        isClosed = true;
        handle.use(
                reader -> {
                    Native.closeReader(reader);
                    return null;
                });
    }

    private void checkOpen() throws ClosedChannelException {
        if (isClosed) {
            throw new ClosedChannelException();
        }
    }

    private interface Work<T> {
        T run() throws IOException;
    }

    private <T> T interruptibly(Work<T> work) throws IOException {
        checkOpen();
        try {
            return work.run();
        } catch (InterruptedIOException e) {
            close();
            ClosedByInterruptException closed = new ClosedByInterruptException();
            closed.initCause(e);
            throw closed;
        }
    }
}
