package io.tidegate;

import java.io.IOException;
import java.io.InputStream;
import java.io.InterruptedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedByInterruptException;
import java.util.Objects;

/** A reader as a stream: bytes that are read one by one come from a buffer. */
final class ReaderStream extends InputStream {
    private static final int AHEAD = 8 << 10;

    private final Reader reader;
    private ByteBuffer ahead = ByteBuffer.allocate(0);

    ReaderStream(Reader reader) {
        this.reader = reader;
    }

    @Override
    public int read() throws IOException {
        if (!ahead.hasRemaining()) {
            if (ahead.capacity() == 0) {
                ahead = ByteBuffer.allocate(AHEAD);
            }
            ahead.clear().limit(0);
            ByteBuffer empty = ahead.duplicate().clear();
            if (next(empty) < 0) {
                return -1;
            }
            ahead.limit(empty.position());
        }
        return ahead.get() & 0xff;
    }

    @Override
    public int read(byte[] to, int start, int length) throws IOException {
        Objects.checkFromIndexSize(start, length, to.length);
        if (ahead.hasRemaining()) {
            int given = Math.min(length, ahead.remaining());
            ahead.get(to, start, given);
            return given;
        }
        return next(ByteBuffer.wrap(to, start, length));
    }

    private int next(ByteBuffer to) throws IOException {
        try {
            return reader.read(to);
        } catch (ClosedByInterruptException e) {
            InterruptedIOException interrupted = Call.interrupted();
            interrupted.initCause(e);
            throw interrupted;
        }
    }

    @Override
    public void close() throws IOException {
        reader.close();
    }
}
