package io.tidegate.hadoop;

import io.tidegate.ObjectInfo;
import io.tidegate.Options;
import io.tidegate.Reader;

import java.io.IOException;
import java.nio.ByteBuffer;

/**
 * Reads an object in order, from wherever the reader goes: by a stream that asks once for all bytes
 * that follow, or by windows, as the policy says. One thread at a time.
 */
final class Cursor {
    /** The first window after a jump: enough for most footers and indexes. */
    private static final int FIRST_WINDOW = 64 << 10;

    /** The largest window. At this size the time between two requests matters little. */
    private static final int LAST_WINDOW = 8 << 20;

    /** How far ahead bytes are read and dropped, because that is faster than a new request. */
    private static final int SKIPPED = 128 << 10;

    /** Reads of fewer bytes come from the window, because each call of the library costs time. */
    private static final int SMALL = 8 << 10;

    private final ObjectPath at;
    private final ObjectInfo object;
    private final ReadPolicy policy;

    /** Reads windows, and sends nothing by itself. */
    private final Reader ranges;

    /** Null unless the stream is in use. */
    private volatile Reader stream;

    /** Bytes that were read ahead: by a request of a window, or from the stream for small reads. */
    private ByteBuffer window = ByteBuffer.allocate(0);

    /** Where the window begins in the object. */
    private long windowStart;

    private int windowSize = FIRST_WINDOW;

    /** Where the last request of a window ended: a read from there on follows the reads before. */
    private long asked = -1;

    Cursor(ObjectPath at, ObjectInfo object, ReadPolicy policy, Reader ranges) {
        this.at = at;
        this.object = object;
        this.policy = policy;
        this.ranges = ranges;
    }

    /**
     * Reads bytes from a position on, as many as are there.
     *
     * @param position before the end of the object
     * @return how many, at least one
     */
    int read(long position, ByteBuffer to) throws IOException {
        if (isInWindow(position)) {
            return fromWindow(position, to);
        }
        return isStreamed(position) ? fromStream(position, to) : fromRange(position, to);
    }

    /** Whether the stream has the bytes at the position next; opens it where that is best. */
    private boolean isStreamed(long position) throws IOException {
        boolean isWanted =
                switch (policy) {
                    case SEQUENTIAL -> true;
                    case ADAPTIVE -> stream == null ? position == 0 : isNear(position);
                    case RANDOM -> false;
                };
        if (!isWanted) {
            closeStream();
            return false;
        }
        if (stream == null) {
            stream = at.store().reader(at.key(), Options.none().and("if_unchanged", object));
        }
        if (isNear(position)) {
            while (stream.position() < position) {
                long skipped = Math.min(position - stream.position(), FIRST_WINDOW);
                stream.read(ByteBuffer.allocate((int) skipped));
            }
        } else {
            stream.position(position);
        }
        return true;
    }

    private boolean isNear(long position) throws IOException {
        long skipped = position - stream.position();
        return skipped >= 0 && skipped <= SKIPPED;
    }

    private boolean isInWindow(long position) {
        return position >= windowStart && position < windowStart + window.limit();
    }

    private int fromWindow(long position, ByteBuffer to) {
        ByteBuffer rest = window.duplicate().position((int) (position - windowStart));
        rest.limit(rest.position() + Math.min(rest.remaining(), to.remaining()));
        int read = rest.remaining();
        to.put(rest);
        return read;
    }

    private int fromStream(long position, ByteBuffer to) throws IOException {
        if (to.remaining() >= SMALL) {
            return stream.read(to);
        }
        ByteBuffer filled = emptied(SMALL);
        stream.read(filled);
        setWindow(position, filled);
        return fromWindow(position, to);
    }

    private int fromRange(long position, ByteBuffer to) throws IOException {
        windowSize = position == asked ? Math.min(windowSize * 2, LAST_WINDOW) : FIRST_WINDOW;
        if (to.remaining() >= windowSize) {
            return whole(position, to);
        }
        ByteBuffer filled =
                emptied((int) Math.min(windowSize, object.size().getAsLong() - position));
        ranges.read(position, filled);
        setWindow(position, filled);
        asked = position + window.limit();
        return fromWindow(position, to);
    }

    /** Reads what is larger than a window by one request, without a copy in between. */
    private int whole(long position, ByteBuffer to) throws IOException {
        ByteBuffer some = to.slice(to.position(), Math.min(to.remaining(), LAST_WINDOW));
        int read = ranges.read(position, some);
        to.position(to.position() + read);
        asked = position + read;
        return read;
    }

    /** The memory of the window, for so many bytes. The window is empty until they are read. */
    private ByteBuffer emptied(int size) {
        ByteBuffer memory = window.capacity() < size ? ByteBuffer.allocate(size) : window;
        window = ByteBuffer.allocate(0);
        return memory.clear().limit(size);
    }

    private void setWindow(long start, ByteBuffer filled) {
        windowStart = start;
        window = filled.flip();
    }

    /** Ends a read of another thread that waits for the stream. */
    void cancel() throws IOException {
        Reader cancelled = stream;
        if (cancelled != null) {
            cancelled.close();
        }
    }

    /** Gives back the connection and the memory. The next read asks anew. */
    void release() throws IOException {
        window = ByteBuffer.allocate(0);
        windowSize = FIRST_WINDOW;
        closeStream();
    }

    private void closeStream() throws IOException {
        if (stream != null) {
            // The window goes too: a read of the first byte must open a stream, and not end there.
            window = ByteBuffer.allocate(0);
            Reader closed = stream;
            stream = null;
            closed.close();
        }
    }
}
