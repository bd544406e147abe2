package io.tidegate.hadoop;

import io.tidegate.ObjectInfo;
import io.tidegate.Reader;

import org.apache.hadoop.fs.ByteBufferPositionedReadable;
import org.apache.hadoop.fs.ByteBufferReadable;
import org.apache.hadoop.fs.CanUnbuffer;
import org.apache.hadoop.fs.FSExceptionMessages;
import org.apache.hadoop.fs.FSInputStream;
import org.apache.hadoop.fs.FileRange;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.StreamCapabilities;
import org.apache.hadoop.fs.statistics.IOStatistics;
import org.apache.hadoop.fs.statistics.IOStatisticsSource;
import org.apache.hadoop.fs.statistics.StreamStatisticNames;

import java.io.EOFException;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Locale;
import java.util.Objects;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;
import java.util.function.IntFunction;

/**
 * Reads one file, as it was when it was opened: if the object is replaced, reads fail.
 *
 * <p>Any number of threads may read at positions, at once. Of reads in order, one waits for the
 * other. A read that was interrupted fails with {@link InterruptedIOException}, and the reads after
 * it fail too.
 */
final class TidegateInputStream extends FSInputStream
        implements ByteBufferReadable,
                ByteBufferPositionedReadable,
                CanUnbuffer,
                StreamCapabilities,
                IOStatisticsSource {
    private final ObjectPath at;
    private final long size;
    private final Reader ranges;
    private final Cursor cursor;
    private final Workers workers;
    private final FileSystem.Statistics ofFileSystem;
    private final Counters counters =
            new Counters(
                    StreamStatisticNames.STREAM_READ_BYTES,
                    StreamStatisticNames.STREAM_READ_EXCEPTIONS,
                    StreamStatisticNames.STREAM_READ_OPERATIONS,
                    StreamStatisticNames.STREAM_READ_UNBUFFERED,
                    StreamStatisticNames.STREAM_READ_VECTORED_INCOMING_RANGES,
                    StreamStatisticNames.STREAM_READ_VECTORED_OPERATIONS);

    /** Guards the position and the cursor. */
    private final ReentrantLock lock = new ReentrantLock();

    private long position;
    private volatile boolean isClosed;

    /**
     * Opens a file without a request.
     *
     * @param object the object, with its size
     * @param workers carries out vectored reads
     * @param ofFileSystem counts the bytes that are read; may be null
     */
    TidegateInputStream(
            ObjectPath at,
            ObjectInfo object,
            ReadPolicy policy,
            Workers workers,
            FileSystem.Statistics ofFileSystem)
            throws IOException {
        this.at = at;
        this.workers = workers;
        this.ofFileSystem = ofFileSystem;
        size = object.size().getAsLong();
        ranges = at.store().reader(object);
        cursor = new Cursor(at, object, policy, ranges);
    }

    private interface Work {
        int run() throws IOException;
    }

    /** Makes a read, counts what it has read, and translates how it fails. */
    private int counted(Work read) throws IOException {
        checkOpen();
        try {
            int bytes = read.run();
            count(bytes);
            return bytes;
        } catch (IOException e) {
            counters.add(StreamStatisticNames.STREAM_READ_EXCEPTIONS, 1);
            throw Failures.of(at.path(), e);
        }
    }

    private void count(long bytes) {
        counters.add(StreamStatisticNames.STREAM_READ_OPERATIONS, 1);
        if (bytes > 0) {
            counters.add(StreamStatisticNames.STREAM_READ_BYTES, bytes);
            if (ofFileSystem != null) {
                ofFileSystem.incrementBytesRead(bytes);
            }
        }
    }

    private void checkOpen() throws IOException {
        if (isClosed) {
            throw new IOException(at.path() + ": " + FSExceptionMessages.STREAM_IS_CLOSED);
        }
    }

    @Override
    public int read() throws IOException {
        byte[] one = new byte[1];
        return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
    }

    @Override
    public int read(byte[] to, int start, int length) throws IOException {
        Objects.checkFromIndexSize(start, length, to.length);
        return read(ByteBuffer.wrap(to, start, length));
    }

    @Override
    public int read(ByteBuffer to) throws IOException {
        return counted(
                () -> {
                    try {
                        lock.lockInterruptibly();
                    } catch (InterruptedException e) {
                        Thread.currentThread().interrupt();
                        throw new InterruptedIOException("interrupted: " + at.path());
                    }
                    try {
                        if (!to.hasRemaining()) {
                            return 0;
                        }
                        if (position >= size) {
                            return -1;
                        }
                        int bytes = cursor.read(position, to);
                        position += bytes;
                        return bytes;
                    } finally {
                        lock.unlock();
                        releaseAfterClose();
                    }
                });
    }

    /** {@inheritDoc} Sends nothing; the next read does. */
    @Override
    public void seek(long to) throws IOException {
        checkOpen();
        if (to < 0) {
            throw new EOFException(FSExceptionMessages.NEGATIVE_SEEK + ": " + to);
        }
        if (to > size) {
            throw new EOFException(
                    FSExceptionMessages.CANNOT_SEEK_PAST_EOF + ": " + to + " of " + at.path());
        }
        lock.lock();
        try {
            position = to;
        } finally {
            lock.unlock();
        }
    }

    @Override
    public long getPos() {
        lock.lock();
        try {
            return position;
        } finally {
            lock.unlock();
        }
    }

    /** There is one source of the bytes. */
    @Override
    public boolean seekToNewSource(long target) {
        return false;
    }

    /** How many bytes there are up to the end; a read of them may wait. */
    @Override
    public int available() throws IOException {
        checkOpen();
        return (int) Math.min(Integer.MAX_VALUE, size - getPos());
    }

    @Override
    public int read(long from, byte[] to, int start, int length) throws IOException {
        checkOpen();
        validatePositionedReadArgs(from, to, start, length);
        return read(from, ByteBuffer.wrap(to, start, length));
    }

    @Override
    public int read(long from, ByteBuffer to) throws IOException {
        return counted(
                () -> {
                    if (from < 0) {
                        throw new EOFException(FSExceptionMessages.NEGATIVE_SEEK + ": " + from);
                    }
                    return ranges.read(from, to);
                });
    }

    @Override
    public void readFully(long from, ByteBuffer to) throws IOException {
        long next = from;
        while (to.hasRemaining()) {
            int bytes = read(next, to);
            if (bytes < 0) {
                throw new EOFException(FSExceptionMessages.EOF_IN_READ_FULLY);
            }
            next += bytes;
        }
    }

    @Override
    public void readVectored(List<? extends FileRange> ranges, IntFunction<ByteBuffer> allocate)
            throws IOException {
        readVectored(ranges, allocate, buffer -> {});
    }

    @Override
    public void readVectored(
            List<? extends FileRange> wanted,
            IntFunction<ByteBuffer> allocate,
            Consumer<ByteBuffer> release)
            throws IOException {
        checkOpen();
        VectoredRead read = VectoredRead.of(at.path(), size, wanted, allocate, release);
        counters.add(StreamStatisticNames.STREAM_READ_VECTORED_OPERATIONS, 1);
        counters.add(StreamStatisticNames.STREAM_READ_VECTORED_INCOMING_RANGES, wanted.size());
        if (!wanted.isEmpty()) {
            // In this thread, because Spark counts by thread.
            count(read.bytes());
            read.start(ranges, workers);
        }
    }

    @Override
    public void unbuffer() {
        lock.lock();
        try {
            counters.add(StreamStatisticNames.STREAM_READ_UNBUFFERED, 1);
            cursor.release();
        } catch (IOException e) {
            // The interface allows no IOException. Nothing is lost: the next read asks anew.
            throw new UncheckedIOException(Failures.of(at.path(), e));
        } finally {
            lock.unlock();
        }
    }

    /**
     * Ends reads of other threads, and waits for none of them. A read in order that is opening its
     * request ends when that has an answer.
     */
    @Override
    public void close() throws IOException {
        if (isClosed) {
            return;
        }
        isClosed = true;
        ranges.close();
        cursor.cancel();
        releaseAfterClose();
    }

    /** A read that holds the lock during the close calls this after its unlock. */
    private void releaseAfterClose() throws IOException {
        if (isClosed && lock.tryLock()) {
            try {
                cursor.release();
            } finally {
                lock.unlock();
            }
        }
    }

    @Override
    public boolean hasCapability(String capability) {
        return switch (capability.toLowerCase(Locale.ROOT)) {
            case StreamCapabilities.IOSTATISTICS,
                    StreamCapabilities.PREADBYTEBUFFER,
                    StreamCapabilities.READBYTEBUFFER,
                    StreamCapabilities.UNBUFFER,
                    StreamCapabilities.VECTOREDIO ->
                    true;
            default -> false;
        };
    }

    @Override
    public IOStatistics getIOStatistics() {
        return counters;
    }

    @Override
    public String toString() {
        return "reads " + at.path() + " at " + getPos() + " of " + size + " " + counters;
    }
}
