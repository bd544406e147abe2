package io.tidegate;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.util.Objects;

/**
 * A writer as a stream: small writes are gathered, and passed on together. Programs that write rows
 * make millions of them, and each call of the native library takes as long as the copy of a page.
 */
final class PublishingStream extends OutputStream {
    private static final int GATHERED = 8 << 10;

    private final Publication publication;
    private ByteBuffer gathered = ByteBuffer.allocate(0);

    PublishingStream(Publication publication) {
        this.publication = publication;
    }

    @Override
    public void write(int one) throws IOException {
        if (hasRoom(1)) {
            gathered.put((byte) one);
        } else {
            publication.write(ByteBuffer.wrap(new byte[] {(byte) one}));
        }
    }

    @Override
    public void write(byte[] bytes, int start, int length) throws IOException {
        Objects.checkFromIndexSize(start, length, bytes.length);
        if (hasRoom(length)) {
            gathered.put(bytes, start, length);
        } else {
            flush();
            publication.write(ByteBuffer.wrap(bytes, start, length));
        }
    }

    /** Whether so many bytes are to be gathered. If there is no room, passes on what there is. */
    private boolean hasRoom(int length) throws IOException {
        publication.checkOpen();
        // With a journal, bytes are durable when a write returns.
        if (length >= GATHERED || publication.writer().isJournaled()) {
            return false;
        }
        if (gathered.remaining() < length) {
            flush();
            if (gathered.capacity() == 0) {
                gathered = ByteBuffer.allocate(GATHERED);
            }
        }
        return true;
    }

    /** Passes on what was gathered. Publishes nothing. */
    @Override
    public void flush() throws IOException {
        if (gathered.position() > 0) {
            ByteBuffer full = gathered;
            gathered = ByteBuffer.allocate(0);
            publication.write(full.flip());
            gathered = full.clear();
        }
    }

    @Override
    public void close() throws IOException {
        if (publication.isOpen()) {
            flush();
        }
        publication.close();
    }
}
