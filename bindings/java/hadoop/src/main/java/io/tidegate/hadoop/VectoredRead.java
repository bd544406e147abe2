package io.tidegate.hadoop;

import io.tidegate.Range;
import io.tidegate.Reader;

import org.apache.hadoop.fs.FileRange;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.VectoredReadUtils;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;
import java.util.function.IntFunction;

/** A read of several ranges, whose futures complete together. */
final class VectoredRead {
    private static final Logger LOG = LoggerFactory.getLogger(VectoredRead.class);

    private record Wanted(long position, ByteBuffer buffer, CompletableFuture<ByteBuffer> result) {}

    private final Path path;
    private final List<Wanted> all;
    private final Consumer<ByteBuffer> release;

    private VectoredRead(Path path, List<Wanted> all, Consumer<ByteBuffer> release) {
        this.path = path;
        this.all = all;
        this.release = release;
    }

    /**
     * Checks the ranges, and gives each its buffer and its future.
     *
     * @param release takes the buffers if the read fails, after the futures have failed
     * @throws IllegalArgumentException if two ranges overlap, or a length is negative
     * @throws java.io.EOFException if a range does not lie within the file
     */
    static VectoredRead of(
            Path path,
            long size,
            List<? extends FileRange> ranges,
            IntFunction<ByteBuffer> allocate,
            Consumer<ByteBuffer> release)
            throws IOException {
        Objects.requireNonNull(release);
        List<? extends FileRange> sorted =
                VectoredReadUtils.validateAndSortRanges(ranges, Optional.of(size));
        // All buffers before the first future, which nothing would complete if there is no buffer.
        List<Wanted> all = new ArrayList<>();
        for (FileRange range : sorted) {
            ByteBuffer buffer = allocate.apply(range.getLength());
            all.add(new Wanted(range.getOffset(), buffer, new CompletableFuture<>()));
        }
        for (int index = 0; index < all.size(); index++) {
            sorted.get(index).setData(all.get(index).result);
        }
        return new VectoredRead(path, all, release);
    }

    /** How many bytes all ranges have. */
    long bytes() {
        return all.stream().mapToLong(one -> one.buffer.remaining()).sum();
    }

    /** Has a thread read all ranges and complete their futures. */
    void start(Reader from, Workers workers) {
        try {
            workers.start(() -> run(from, workers));
        } catch (IOException e) {
            workers.complete(() -> fail(e));
        }
    }

    private void run(Reader from, Workers workers) {
        try {
            // A view, so that the buffers keep their positions.
            from.readRanges(
                    all.stream().map(one -> new Range(one.position, one.buffer.slice())).toList());
            workers.complete(() -> all.forEach(one -> one.result.complete(one.buffer)));
        } catch (IOException e) {
            workers.complete(() -> fail(Failures.of(path, e)));
        } catch (Throwable e) {
            workers.complete(() -> fail(e));
        }
    }

    private void fail(Throwable failure) {
        for (Wanted one : all) {
            one.result.completeExceptionally(failure);
        }
        for (Wanted one : all) {
            try {
                release.accept(one.buffer);
            } catch (RuntimeException e) {
                // The read has failed, and says why. The other buffers go back all the same.
                LOG.warn("{}: a buffer of a failed read was not taken back", path, e);
            }
        }
    }
}
