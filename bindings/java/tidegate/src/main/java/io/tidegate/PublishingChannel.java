package io.tidegate;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.WritableByteChannel;
import java.util.Optional;

/** A writer as a channel. */
final class PublishingChannel implements WritableByteChannel {
    private final Publication publication;

    PublishingChannel(Publication publication) {
        this.publication = publication;
    }

    @Override
    public int write(ByteBuffer bytes) throws IOException {
        int length = bytes.remaining();
        try {
            publication.write(bytes);
        } catch (InterruptedIOException e) {
            throw closedByInterrupt(e);
        }
        return length;
    }

    /** The object, once {@code close} has published it. */
    Optional<ObjectInfo> published() {
        return publication.published();
    }

    @Override
    public boolean isOpen() {
        return publication.isOpen();
    }

    @Override
    public void close() throws IOException {
        try {
            publication.close();
        } catch (InterruptedIOException e) {
            throw closedByInterrupt(e);
        }
    }

    private static ClosedByInterruptException closedByInterrupt(InterruptedIOException cause) {
        ClosedByInterruptException closed = new ClosedByInterruptException();
        closed.initCause(cause);
        return closed;
    }
}
