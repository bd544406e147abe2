package io.tidegate.hadoop;

import org.apache.hadoop.fs.Abortable;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.StreamCapabilities;
import org.apache.hadoop.fs.Syncable;
import org.apache.hadoop.fs.statistics.IOStatistics;
import org.apache.hadoop.fs.statistics.IOStatisticsSource;
import org.apache.hadoop.fs.statistics.StreamStatisticNames;

import java.io.IOException;
import java.io.OutputStream;
import java.util.Locale;
import java.util.concurrent.atomic.LongAdder;

/**
 * Writes one file, which becomes visible when {@link #close()} returns, and not before; a file of a
 * task attempt when its job is committed.
 *
 * <p>After a write or a close has failed, every later call fails, {@code close} too, and nothing is
 * published. {@link #abort()} discards the file, and {@code close} then does nothing. One thread at
 * a time, but {@code abort} from any.
 */
final class TidegateOutputStream extends OutputStream
        implements Abortable, Syncable, StreamCapabilities, IOStatisticsSource {
    /** What hflush and hsync do, since a store can't keep part of an object. */
    enum Sync {
        /** They fail. */
        REFUSED,
        /** They do nothing. */
        IGNORED
    }

    /** What the file is written to. */
    interface Target {
        /** The stream, whose close publishes the file or hands it to the attempt. */
        OutputStream stream();

        /** Discards the file, unless the stream was closed. */
        void abort() throws IOException;

        /** Whether the close has succeeded, perhaps before an {@code abort} of another thread. */
        boolean isFinished();

        /** The stream was closed without a failure, perhaps after an {@code abort}. */
        default void closed() {}
    }

    private final Path path;
    private final Target target;
    private final OutputStream stream;
    private final Sync sync;
    private final Counters counters =
            new Counters(
                    StreamStatisticNames.STREAM_WRITE_BYTES,
                    StreamStatisticNames.STREAM_WRITE_EXCEPTIONS);
    private final LongAdder written = counters.counter(StreamStatisticNames.STREAM_WRITE_BYTES);
    private volatile boolean isClosed;

    TidegateOutputStream(Path path, Target target, Sync sync) {
        this.path = path;
        this.target = target;
        this.sync = sync;
        stream = target.stream();
    }

    private IOException failed(IOException e) {
        counters.add(StreamStatisticNames.STREAM_WRITE_EXCEPTIONS, 1);
        return Failures.of(path, e);
    }

    @Override
    public void write(int one) throws IOException {
        try {
            stream.write(one);
        } catch (IOException e) {
            throw failed(e);
        }
        written.increment();
    }

    @Override
    public void write(byte[] bytes, int start, int length) throws IOException {
        try {
            stream.write(bytes, start, length);
        } catch (IOException e) {
            throw failed(e);
        }
        written.add(length);
    }

    /** Does nothing: what was written is on its way, and nothing is visible before the close. */
    @Override
    public void flush() {}

    @Override
    public void close() throws IOException {
        try {
            stream.close();
        } catch (IOException e) {
            throw failed(e);
        }
        if (!isClosed) {
            target.closed();
        }
        isClosed = true;
    }

    @Override
    public AbortableResult abort() {
        if (isClosed) {
            return new Aborted(true, null);
        }
        try {
            target.abort();
            return new Aborted(target.isFinished(), null);
        } catch (IOException e) {
            return new Aborted(target.isFinished(), Failures.of(path, e));
        }
    }

    private record Aborted(boolean alreadyClosed, IOException anyCleanupException)
            implements AbortableResult {}

    @Override
    public void hflush() throws IOException {
        synced("hflush");
    }

    @Override
    public void hsync() throws IOException {
        synced("hsync");
    }

    private void synced(String operation) {
        if (sync == Sync.REFUSED) {
            throw new UnsupportedOperationException(
                    operation
                            + " of "
                            + path
                            + ": a store keeps an object when it is closed; "
                            + Settings.name(Settings.DOWNGRADE_SYNCABLE)
                            + " has the call do nothing");
        }
    }

    @Override
    public boolean hasCapability(String capability) {
        return switch (capability.toLowerCase(Locale.ROOT)) {
            case StreamCapabilities.ABORTABLE_STREAM, StreamCapabilities.IOSTATISTICS -> true;
            default -> Capabilities.ofConditions(capability);
        };
    }

    @Override
    public IOStatistics getIOStatistics() {
        return counters;
    }

    @Override
    public String toString() {
        return "writes " + path + " " + counters;
    }
}
