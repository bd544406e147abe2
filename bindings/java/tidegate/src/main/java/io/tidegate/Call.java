package io.tidegate;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.lang.ref.Reference;
import java.nio.channels.AsynchronousCloseException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicLong;

/**
 * One call that the engine carries out while the caller waits in Java: so a virtual thread leaves
 * its carrier to others.
 */
final class Call {
    /**
     * How a call has ended. Without a payload, a failure is that the heap had no room for its
     * description.
     */
    record Reply(boolean isSuccess, long value, byte[] payload) {}

    /** Begins a call. */
    interface Begin {
        void with(long handle, long token) throws TidegateException;
    }

    private static final ConcurrentHashMap<Long, CompletableFuture<Reply>> UNDER_WAY =
            new ConcurrentHashMap<>();
    private static final AtomicLong TOKENS = new AtomicLong();

    private Call() {}

    static void complete(long token, Reply reply) {
        CompletableFuture<Reply> call = UNDER_WAY.remove(token);
        if (call != null) {
            call.complete(reply);
        }
    }

    /**
     * Carries out a call, and waits for its end. Afterwards the engine uses no memory of the
     * caller's.
     *
     * @throws InterruptedIOException if this thread was interrupted before the call or during it;
     *     it still is
     * @throws AsynchronousCloseException if another thread has closed what the call is of
     * @throws TidegateException if the call failed
     */
    static Reply await(Handle handle, Begin begin) throws IOException {
        if (Thread.currentThread().isInterrupted()) {
            throw interrupted();
        }
        long token = TOKENS.incrementAndGet();
        CompletableFuture<Reply> call = new CompletableFuture<>();
        UNDER_WAY.put(token, call);
        boolean hasBegun = false;
        try {
            begin.with(handle.address(), token);
            hasBegun = true;
        } finally {
            if (!hasBegun) {
                UNDER_WAY.remove(token);
            }
            Reference.reachabilityFence(handle);
        }
        try {
            return checked(call.get(), false);
        } catch (InterruptedException e) {
            Native.cancel(token);
            // Soon, and with what the call came to if it has ended before.
            Reply reply = call.join();
            Thread.currentThread().interrupt();
            return checked(reply, true);
        } catch (ExecutionException e) {
            throw new AssertionError("a call never completes exceptionally", e);
        }
    }

    private static Reply checked(Reply reply, boolean isInterrupted) throws IOException {
        if (reply.isSuccess()) {
            return reply;
        }
        if (reply.payload() == null) {
            throw new OutOfMemoryError("the heap has no room for the result of a call");
        }
        TidegateException failure = TidegateException.of(reply.payload());
        if (failure.kind() != TidegateException.Kind.CANCELLED) {
            throw failure;
        }
        throw isInterrupted ? interrupted() : new AsynchronousCloseException();
    }

    static InterruptedIOException interrupted() {
        return new InterruptedIOException("the thread was interrupted");
    }
}
