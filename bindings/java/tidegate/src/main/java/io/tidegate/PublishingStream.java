package io.tidegate;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.util.Objects;

/** A writer as a stream: single bytes are gathered, and passed on together. */
final class PublishingStream extends OutputStream {
    private static final int GATHERED = 8 << 10;

    private final Publication publication;
    private ByteBuffer gathered = ByteBuffer.allocate(0);

    PublishingStream(Publication publication) {
        this.publication = publication;
    }

    @Override
    public void write(int one) throws IOException {
        publication.checkOpen();
        if (publication.writer().isJournaled()) {
            // Durable when this returns.
            publication.write(ByteBuffer.wrap(new byte[] {(byte) one}));
            return;
        }
        if (!gathered.hasRemaining()) {
            flush();
            if (gathered.capacity() == 0) {
                gathered = ByteBuffer.allocate(GATHERED);
            }
        }
        gathered.put((byte) one);
    }

    @Override
    public void write(byte[] bytes, int start, int length) throws IOException {
        Objects.checkFromIndexSize(start, length, bytes.length);
        flush();
        publication.write(ByteBuffer.wrap(bytes, start, length));
    }

    /** Passes on single bytes that were gathered. Publishes nothing. */
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
