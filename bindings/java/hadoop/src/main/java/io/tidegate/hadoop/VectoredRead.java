package io.tidegate.hadoop;

import io.tidegate.Range;
import io.tidegate.Reader;

import org.apache.hadoop.fs.FileRange;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.VectoredReadUtils;

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
     * @param release takes the buffers if the read fails
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
        List<Wanted> all = new ArrayList<>();
        for (FileRange range : VectoredReadUtils.validateAndSortRanges(ranges, Optional.of(size))) {
            ByteBuffer buffer = allocate.apply(range.getLength());
            CompletableFuture<ByteBuffer> result = new CompletableFuture<>();
            range.setData(result);
            all.add(new Wanted(range.getOffset(), buffer, result));
        }
        return new VectoredRead(path, all, release);
    }

    /** How many bytes all ranges have. */
    long bytes() {
        return all.stream().mapToLong(one -> one.buffer.remaining()).sum();
    }

    /** Reads all ranges, and completes their futures. */
    void run(Reader from) {
        try {
            // A view, so that the buffers keep their positions.
            from.readRanges(
                    all.stream().map(one -> new Range(one.position, one.buffer.slice())).toList());
            all.forEach(one -> one.result.complete(one.buffer));
        } catch (IOException e) {
            fail(Failures.of(path, e));
        } catch (RuntimeException e) {
            fail(e);
        }
    }

    private void fail(Exception failure) {
        for (Wanted one : all) {
            release.accept(one.buffer);
            one.result.completeExceptionally(failure);
        }
    }
}
