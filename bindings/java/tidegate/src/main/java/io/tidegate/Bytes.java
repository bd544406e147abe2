package io.tidegate;

import java.nio.ByteBuffer;
import java.nio.ReadOnlyBufferException;

/**
 * What remains of a buffer, as a native method takes it: an array or a direct buffer, and a range
 * in it.
 */
record Bytes(byte[] array, ByteBuffer direct, int start, int length) {
    /**
     * For a method that reads the first bytes, {@code most} at most: those of a read-only buffer on
     * the heap are copied.
     */
    static Bytes toRead(ByteBuffer buffer, int most) {
        if (buffer.isDirect() || buffer.hasArray()) {
            return all(buffer).first(most);
        }
        byte[] copied = new byte[Math.min(buffer.remaining(), most)];
        buffer.duplicate().get(copied);
        return new Bytes(copied, null, 0, copied.length);
    }

    /**
     * For a method that fills the bytes.
     *
     * @throws ReadOnlyBufferException if nobody can
     */
    static Bytes toFill(ByteBuffer buffer) {
        if (buffer.isReadOnly()) {
            throw new ReadOnlyBufferException();
        }
        return all(buffer);
    }

    private static Bytes all(ByteBuffer buffer) {
        if (buffer.isDirect()) {
            return new Bytes(null, buffer, buffer.position(), buffer.remaining());
        }
        return new Bytes(
                buffer.array(), null, buffer.arrayOffset() + buffer.position(), buffer.remaining());
    }

    /** The first bytes of these. */
    private Bytes first(int most) {
        return new Bytes(array, direct, start, Math.min(length, most));
    }
}
