package io.tidegate;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedChannelException;
import java.util.Optional;

/**
 * How a stream or a channel ends: its close finishes the writer, unless a write has failed or the
 * writer has ended before.
 */
final class Publication {
    private final OpenWriter writer;
    private volatile boolean isClosed;

    private volatile Optional<ObjectInfo> published = Optional.empty();

    /** What the first call that failed has thrown: no later one may look as if it had succeeded. */
    private volatile IOException failure;

    Publication(OpenWriter writer) {
        this.writer = writer;
    }

    OpenWriter writer() {
        return writer;
    }

    boolean isOpen() {
        return !isClosed && failure == null && !writer.hasEnded();
    }

    /** The object, once {@code close} has published it. */
    Optional<ObjectInfo> published() {
        return published;
    }

    /** Fails, unless a write may begin. */
    void checkOpen() throws IOException {
        throwAgain();
        if (!isOpen()) {
            throw new ClosedChannelException();
        }
    }

    void write(ByteBuffer bytes) throws IOException {
        checkOpen();
        try {
            writer.write(bytes);
        } catch (IOException e) {
            failure = e;
            throw e;
        } catch (RuntimeException | Error e) {
            // Bytes may be missing.
            failure = new IOException(e);
            writer.lose();
            throw e;
        }
    }

    void close() throws IOException {
        throwAgain();
        if (isClosed || writer.hasEnded()) {
            isClosed = true;
            return;
        }
        isClosed = true;
        try {
            published = writer.end();
        } catch (IOException e) {
            failure = e;
            throw e;
        } catch (RuntimeException | Error e) {
            // What became of the upload is not known.
            failure = new IOException(e);
            throw e;
        }
    }

    /**
     * Not the same exception: one that is thrown twice in a {@code try (…)} would suppress itself,
     * which Java refuses.
     */
    private void throwAgain() throws IOException {
        IOException first = failure;
        if (first == null || writer.hasEnded()) {
            return;
        }
        if (first instanceof TidegateException known) {
            throw known.again();
        }
        throw new TidegateException(
                TidegateException.Kind.CLOSED,
                writer + ": an earlier call failed, and this one does nothing",
                first);
    }
}
