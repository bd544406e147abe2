package io.tidegate;

import java.lang.System.Logger.Level;
import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.util.concurrent.CompletableFuture;

/**
 * What a Java object holds of the native side. It is freed when this object is unreachable, and
 * never before: so no thread can use it when it is gone.
 */
final class Handle {
    private static final System.Logger LOGGER = System.getLogger("io.tidegate");
    private static final Cleaner CLEANER =
            Cleaner.create(
                    work -> {
                        Thread thread = new Thread(work, "tidegate-cleaner");
                        thread.setDaemon(true);
                        return thread;
                    });

    /** Uses the address. The handle is reachable until this returns. */
    interface Use<T> {
        T of(long address) throws TidegateException;
    }

    private final Owned owned;

    Handle(long address) {
        owned = new Owned(address);
        CLEANER.register(this, owned);
    }

    long address() {
        return owned.address;
    }

    <T> T use(Use<T> use) throws TidegateException {
        try {
            return use.of(owned.address);
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /** What is logged if this is freed before the text is taken back with null. */
    void warnIfFreed(String text) {
        owned.warning = text;
    }

    /** What fails with that text then. */
    void failIfFreed(CompletableFuture<?> result) {
        owned.result = result;
    }

    /** Has no reference to the handle, which would then never be unreachable. */
    private static final class Owned implements Runnable {
        final long address;
        volatile String warning;
        volatile CompletableFuture<?> result;

        Owned(long address) {
            this.address = address;
        }

        @Override
        public void run() {
            try {
                Native.free(address);
            } catch (TidegateException e) {
                LOGGER.log(Level.WARNING, "a native handle could not be freed", e);
            }
            if (warning != null) {
                LOGGER.log(Level.WARNING, warning);
                if (result != null) {
                    result.completeExceptionally(
                            new TidegateException(TidegateException.Kind.CLOSED, warning, null));
                }
            }
        }
    }
}
