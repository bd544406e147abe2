package io.tidegate;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.nio.channels.AsynchronousCloseException;
import java.util.Optional;

/**
 * Writes one file of a task attempt: {@link TaskAttempt#writer(String)}. After {@link #finish()}
 * the attempt's commit includes the file, which becomes visible when the job is committed.
 *
 * <p>{@link #close()} before {@code finish} discards the file, and so does {@link #abort()}: the
 * attempt goes on without it. A write or a {@code finish} that fails, an interrupt, and garbage
 * collection, which is logged as a warning of the {@link System.Logger} {@code io.tidegate}, lose
 * the file: {@link TaskAttempt#commit()} fails until the key is written again, or {@code abort} is
 * called; {@code close} does not suffice then. After a failed write every later call fails with
 * {@link TidegateException.Kind#CLOSED}.
 *
 * <p>One thread writes at a time; others wait for it. {@code close} and {@code abort} may be called
 * at any time: a call of another thread then ends with {@link AsynchronousCloseException}.
 */
public final class TaskWriter extends OpenWriter {
    /** The writer that a native method has opened. */
    TaskWriter(Call.Reply reply, String key) throws IOException {
        super(
                reply,
                key,
                "the writer of "
                        + key
                        + " was garbage collected before finish(): the file is lost, and its"
                        + " attempt is not committed");
    }

    /**
     * Ends the file: all its bytes are at the store, nothing is visible, and the attempt's commit
     * includes it.
     *
     * @throws TidegateException and the file is lost; of kind {@code CLOSED} also once the lifetime
     *     of the job is over
     * @throws InterruptedIOException if the thread was interrupted, and the file is lost
     */
    public void finish() throws IOException {
        exclusively(
                () -> {
                    passOn();
                    Call.await(handle, Native::finishTaskFile);
                    finished();
                    return null;
                });
    }

    @Override
    Optional<ObjectInfo> end() throws IOException {
        finish();
        return Optional.empty();
    }
}
