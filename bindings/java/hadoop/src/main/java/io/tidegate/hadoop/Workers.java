package io.tidegate.hadoop;

import java.io.Closeable;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;

/** Threads for the requests of one file system that go out at once. They end when idle. */
final class Workers implements Closeable {
    private final ThreadPoolExecutor threads;

    Workers(int most) {
        threads =
                new ThreadPoolExecutor(
                        most,
                        most,
                        10,
                        TimeUnit.SECONDS,
                        new LinkedBlockingQueue<>(),
                        Workers::thread);
        threads.allowCoreThreadTimeOut(true);
    }

    private static Thread thread(Runnable work) {
        Thread thread = new Thread(work, "tidegate-hadoop");
        thread.setDaemon(true);
        return thread;
    }

    Executor executor() {
        return threads;
    }

    /** Work with one item. */
    interface Work<T> {
        void with(T item) throws IOException;
    }

    /**
     * Works with all items. After the first failure no more work begins.
     *
     * @throws IOException the first failure, when all work that began has ended; later failures are
     *     suppressed in it
     * @throws InterruptedIOException if the thread was interrupted; calls under way end within 100
     *     ms
     */
    <T> void each(Collection<T> items, Work<T> work) throws IOException {
        AtomicBoolean hasFailed = new AtomicBoolean();
        List<Future<?>> calls = new ArrayList<>();
        for (T item : items) {
            Callable<Void> call =
                    () -> {
                        if (!hasFailed.get()) {
                            boolean isDone = false;
                            try {
                                work.with(item);
                                isDone = true;
                            } finally {
                                hasFailed.compareAndSet(false, !isDone);
                            }
                        }
                        return null;
                    };
            calls.add(threads.submit(call));
        }
        IOException failure = null;
        for (Future<?> call : calls) {
            try {
                call.get();
            } catch (InterruptedException e) {
                hasFailed.set(true);
                calls.forEach(other -> other.cancel(true));
                Thread.currentThread().interrupt();
                throw new InterruptedIOException("interrupted while requests were under way");
            } catch (ExecutionException e) {
                IOException next = known(e.getCause());
                if (failure == null) {
                    failure = next;
                } else {
                    failure.addSuppressed(next);
                }
            }
        }
        if (failure != null) {
            throw failure;
        }
    }

    private static IOException known(Throwable failure) {
        if (failure instanceof Error error) {
            throw error;
        }
        return failure instanceof IOException io ? io : new IOException(failure);
    }

    @Override
    public void close() {
        threads.shutdown();
    }
}
