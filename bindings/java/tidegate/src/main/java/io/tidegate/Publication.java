package io.tidegate;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedChannelException;
import java.util.Optional;

/**
 * How a stream or a channel ends: its close publishes, unless a write has failed or the writer has
 * ended before.
 */
final class Publication {
    private final Writer writer;
    private volatile boolean isClosed;

    private volatile ObjectInfo published;

    /** What the first call that failed has thrown: no later one may look as if it had succeeded. */
    private volatile IOException failure;

    Publication(Writer writer) {
        this.writer = writer;
    }

    Writer writer() {
        return writer;
    }

    boolean isOpen() {
        return !isClosed && failure == null && !writer.hasEnded();
    }

    /** The object, once {@code close} has published it. */
    Optional<ObjectInfo> published() {
        return Optional.ofNullable(published);
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
            writer.discard();
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
            published = writer.finish();
        } catch (IOException e) {
            failure = e;
            throw e;
        } catch (RuntimeException | Error e) {
            // Whether it was published is not known.
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
