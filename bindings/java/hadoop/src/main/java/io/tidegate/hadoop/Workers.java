package io.tidegate.hadoop;

import java.io.Closeable;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * Threads for the requests of one file system that go out at once. They end when idle. What waits
 * for a result of theirs runs in other threads, of which there are as many as needed: so code of
 * the caller that waits for a request takes no thread from it.
 */
final class Workers implements Closeable {
    /** How long a thread waits for work until it ends. */
    private static final long IDLE_SECONDS = 10;

    private final ThreadPoolExecutor threads;
    private final ThreadPoolExecutor completing;

    Workers(int most) {
        threads =
                new ThreadPoolExecutor(
                        most,
                        most,
                        IDLE_SECONDS,
                        TimeUnit.SECONDS,
                        new LinkedBlockingQueue<>(),
                        Workers::thread);
        threads.allowCoreThreadTimeOut(true);
        completing =
                new ThreadPoolExecutor(
                        0,
                        Integer.MAX_VALUE,
                        IDLE_SECONDS,
                        TimeUnit.SECONDS,
                        new SynchronousQueue<>(),
                        Workers::thread);
    }

    private static Thread thread(Runnable work) {
        Thread thread = new Thread(work, "tidegate-hadoop");
        thread.setDaemon(true);
        return thread;
    }

    /**
     * Has a thread work.
     *
     * @throws IOException if the file system is closed
     */
    void start(Runnable work) throws IOException {
        try {
            threads.execute(work);
        } catch (RejectedExecutionException e) {
            throw closed(e);
        }
    }

    /** Completes futures, whose continuations may wait for requests. Possible after the close. */
    void complete(Runnable completion) {
        try {
            completing.execute(completion);
        } catch (OutOfMemoryError e) {
            // There is no thread more. The futures must complete all the same.
            completion.run();
        }
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
     * @throws InterruptedIOException if the thread was interrupted: no more work began, and all
     *     that had begun has ended by itself
     */
    <T> void each(Collection<T> items, Work<T> work) throws IOException {
        AtomicBoolean hasFailed = new AtomicBoolean();
        List<Future<?>> calls = new ArrayList<>();
        List<IOException> failures = new ArrayList<>();
        for (T item : items) {
            Callable<Void> call =
                    () -> {
                        if (!hasFailed.get()) {
                            try {
                                work.with(item);
                            } catch (Throwable e) {
                                hasFailed.set(true);
                                throw e;
                            }
                        }
                        return null;
                    };
            try {
                calls.add(threads.submit(call));
            } catch (RejectedExecutionException e) {
                hasFailed.set(true);
                failures.add(closed(e));
                break;
            }
        }
        boolean isInterrupted = false;
        for (Future<?> call : calls) {
            isInterrupted |= awaited(call, hasFailed, failures);
        }
        if (isInterrupted) {
            Thread.currentThread().interrupt();
            failures.add(
                    0, new InterruptedIOException("interrupted while requests were under way"));
        }
        if (!failures.isEmpty()) {
            IOException first = failures.get(0);
            failures.subList(1, failures.size()).forEach(first::addSuppressed);
            throw first;
        }
    }

    /**
     * Waits for the end of a call, also when the thread is interrupted.
     *
     * @return whether it was; then no more work begins
     */
    private static boolean awaited(
            Future<?> call, AtomicBoolean hasFailed, List<IOException> failures) {
        boolean isInterrupted = false;
        while (true) {
            try {
                call.get();
                return isInterrupted;
            } catch (InterruptedException e) {
                hasFailed.set(true);
                isInterrupted = true;
            } catch (ExecutionException e) {
                Throwable failure = e.getCause();
                failures.add(failure instanceof IOException io ? io : new IOException(failure));
                return isInterrupted;
            }
        }
    }

    private static IOException closed(RejectedExecutionException cause) {
        return new IOException("the file system is closed", cause);
    }

    /** Ends the threads when they have done what was begun. */
    @Override
    public void close() {
        threads.shutdown();
    }
}
