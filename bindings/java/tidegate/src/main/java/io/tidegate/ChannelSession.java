package io.tidegate;

import java.io.IOException;
import java.lang.ref.WeakReference;
import java.nio.ByteBuffer;
import java.nio.channels.AsynchronousCloseException;
import java.nio.channels.WritableByteChannel;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicReference;

/** A session that writes with a {@link Writer}, which it opens when it is opened. */
final class ChannelSession implements WriteSession {
    private enum State {
        NEW,
        OPENED,
        CLOSING,
        ABORTED
    }

    private final Store store;
    private final String key;
    private final Options options;
    private final AtomicReference<State> state = new AtomicReference<>(State.NEW);
    private final CompletableFuture<ObjectInfo> result = new CompletableFuture<>();

    /** Weak, so that a channel that is garbage collected takes its writer with it. */
    private volatile WeakReference<Writer> writer = new WeakReference<>(null);

    ChannelSession(Store store, String key, Options options) {
        this.store = store;
        this.key = key;
        this.options = options;
    }

    @Override
    public WritableByteChannel open() throws IOException {
        if (!state.compareAndSet(State.NEW, State.OPENED)) {
            throw new IllegalStateException(
                    "the session of " + key + " was opened or aborted before");
        }
        Writer opened;
        try {
            opened = store.writer(key, options);
        } catch (IOException | RuntimeException | Error e) {
            result.completeExceptionally(e);
            throw e;
        }
        opened.failIfCollected(result);
        writer = new WeakReference<>(opened);
        if (state.get() == State.ABORTED) {
            opened.close();
            throw new AsynchronousCloseException();
        }
        return new ResultChannel(opened.publishing(), state, result);
    }

    @Override
    public CompletableFuture<ObjectInfo> getResult() {
        return result;
    }

    @Override
    public void abort() throws IOException {
        State before =
                state.getAndUpdate(now -> now == State.CLOSING ? State.CLOSING : State.ABORTED);
        Writer opened = writer.get();
        try {
            if (opened != null) {
                opened.abort();
            }
        } finally {
            // Unless it has failed. A close that has begun says itself what became of the object.
            if (before != State.CLOSING) {
                result.cancel(false);
            }
        }
    }

    /** Completes the result with what becomes of the channel. Has no reference to the session. */
    private static final class ResultChannel implements WritableByteChannel {
        private final PublishingChannel channel;
        private final AtomicReference<State> state;
        private final CompletableFuture<ObjectInfo> result;

        ResultChannel(
                PublishingChannel channel,
                AtomicReference<State> state,
                CompletableFuture<ObjectInfo> result) {
            this.channel = channel;
            this.state = state;
            this.result = result;
        }

        @Override
        public int write(ByteBuffer bytes) throws IOException {
            try {
                return channel.write(bytes);
            } catch (IOException | RuntimeException | Error e) {
                if (!channel.isOpen()) {
                    result.completeExceptionally(e);
                }
                throw e;
            }
        }

        @Override
        public boolean isOpen() {
            return channel.isOpen();
        }

        @Override
        public void close() throws IOException {
            boolean isFirst = state.compareAndSet(State.OPENED, State.CLOSING);
            try {
                channel.close();
            } catch (IOException | RuntimeException | Error e) {
                result.completeExceptionally(e);
                throw e;
            }
            if (isFirst) {
                // Nothing is published after an abort.
                channel.published().ifPresentOrElse(result::complete, () -> result.cancel(false));
            }
        }
    }
}
