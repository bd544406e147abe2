package io.tidegate;

import java.io.IOException;
import java.nio.channels.WritableByteChannel;
import java.util.concurrent.CompletableFuture;

/**
 * The write of one object as google-cloud-storage has it: a channel whose {@code close} publishes,
 * and a future of what was published. {@link Store#session} gives one; how it writes is the {@link
 * WriteSessionConfig} of the engine.
 */
public interface WriteSession {
    /**
     * Opens the channel, once. Its {@code close} publishes the object, whole. After a failed write
     * every later call fails, {@code close} too, and nothing is published. {@code close} is not
     * told of an exception in a {@code try (…)}: call {@link #abort()} when your own code fails. A
     * channel that is garbage collected publishes nothing, and is logged as a warning.
     *
     * @throws IllegalStateException if it was opened or aborted before
     * @throws TidegateException if the options are wrong
     */
    WritableByteChannel open() throws IOException;

    /**
     * Completed when the channel's {@code close} has published the object; exceptionally, with what
     * the call has thrown, when {@code open}, a write or {@code close} has failed; cancelled by
     * {@link #abort()}. Nothing completes it before {@code open} or {@code abort}.
     */
    CompletableFuture<ObjectInfo> getResult();

    /**
     * Discards the write, unless it was published, and waits until the store has released its
     * session. Any thread may call it: a call of the channel then ends with {@link
     * java.nio.channels.AsynchronousCloseException}. {@code close} of the channel does nothing
     * afterwards.
     */
    void abort() throws IOException;
}
