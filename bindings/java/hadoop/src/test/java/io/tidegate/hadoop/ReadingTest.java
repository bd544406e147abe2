package io.tidegate.hadoop;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileRange;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Options.OpenFileOptions;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathIOException;
import org.apache.hadoop.fs.statistics.IOStatisticsSupport;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.io.EOFException;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;

/** Reads in order, at positions and of ranges, of a file of several windows. */
class ReadingTest {
    private static final byte[] BYTES = TestStore.bytes((20 << 20) + 17);

    private final FileSystem fs = TestStore.fileSystem();
    private final Path path = new Path(TestStore.directory(), "file");

    ReadingTest() throws IOException {}

    @BeforeEach
    void write() throws IOException {
        TestStore.write(fs, path, BYTES);
    }

    private FSDataInputStream open(String policy) throws Exception {
        return fs.openFile(path)
                .must(OpenFileOptions.FS_OPTION_OPENFILE_READ_POLICY, policy)
                .build()
                .get();
    }

    private static void assertReads(FSDataInputStream in, int from, int length) throws IOException {
        byte[] read = new byte[length];
        in.seek(from);
        in.readFully(read);
        assertArrayEquals(Arrays.copyOfRange(BYTES, from, from + length), read);
        assertEquals(from + length, in.getPos());
    }

    @ParameterizedTest
    @ValueSource(strings = {"sequential", "adaptive", "random"})
    void everyPolicyGivesTheSameBytes(String policy) throws Exception {
        try (FSDataInputStream in = open(policy)) {
            assertArrayEquals(BYTES, in.readAllBytes());
            assertEquals(-1, in.read());
            assertReads(in, 0, 10);
            assertReads(in, 100, 10); // a little ahead
            assertReads(in, 5 << 20, 3 << 20); // far ahead
            assertReads(in, 4 << 20, 100);
            in.seek(0);
            for (int next = 0; next < 20_000; next++) {
                assertEquals(BYTES[next] & 0xff, in.read());
            }
            assertReads(in, 19_000, 10); // a little behind
            assertReads(in, 19_900, 100_000);
            Random random = new Random(1);
            for (int count = 0; count < 50; count++) {
                int from = random.nextInt(BYTES.length);
                assertReads(in, from, random.nextInt(Math.min(BYTES.length - from, 400_000)));
            }
            in.unbuffer();
            assertReads(in, 7, 7);
        }
    }

    @Test
    void bufferedReadsOfBothKinds() throws Exception {
        try (FSDataInputStream in = fs.open(path)) {
            ByteBuffer direct = ByteBuffer.allocateDirect(1000);
            in.readFully(12 << 20, direct);
            byte[] read = new byte[1000];
            direct.flip().get(read);
            assertArrayEquals(Arrays.copyOfRange(BYTES, 12 << 20, (12 << 20) + 1000), read);
            assertEquals(0, in.getPos());
            ByteBuffer heap = ByteBuffer.allocate(10);
            assertTrue(in.read(heap) > 0);
            assertEquals(BYTES[0], heap.get(0));
            assertEquals(-1, in.read(BYTES.length, ByteBuffer.allocate(1)));
            assertThrows(
                    EOFException.class,
                    () -> in.readFully(BYTES.length - 1, ByteBuffer.allocate(2)));
        }
    }

    @Test
    void bytesAreCountedOfAllKindsOfReads() throws Exception {
        FileSystem.clearStatistics();
        try (FSDataInputStream in = fs.open(path)) {
            in.readFully(new byte[1000]);
            in.readFully(5000, new byte[100]);
            List<FileRange> ranges = List.of(FileRange.createFileRange(50, 7));
            in.readVectored(ranges, ByteBuffer::allocate);
            ranges.get(0).getData().get();
            assertEquals(
                    1107L,
                    IOStatisticsSupport.retrieveIOStatistics(in)
                            .counters()
                            .get("stream_read_bytes"));
        }
        assertEquals(
                1107L,
                FileSystem.getGlobalStorageStatistics().get(fs.getScheme()).getLong("bytesRead"));
    }

    @Test
    void rangesOfEveryOrderAndKind() throws Exception {
        List<FileRange> ranges = new ArrayList<>();
        for (int count = 0; count < 200; count++) {
            ranges.add(FileRange.createFileRange((199 - count) * 100_000L, 1000 + count));
        }
        ranges.add(FileRange.createFileRange(BYTES.length - 5, 5));
        ranges.add(FileRange.createFileRange(50_000, 0));
        try (FSDataInputStream in = fs.open(path)) {
            in.readVectored(
                    ranges,
                    size ->
                            size % 2 == 0
                                    ? ByteBuffer.allocate(size)
                                    : ByteBuffer.allocateDirect(size));
            for (FileRange range : ranges) {
                byte[] read = new byte[range.getLength()];
                ByteBuffer buffer = range.getData().get();
                buffer.get(read);
                int from = (int) range.getOffset();
                assertArrayEquals(Arrays.copyOfRange(BYTES, from, from + read.length), read);
            }
        }
    }

    @Test
    void aReplacedFileIsNotMixedWithTheNewOne() throws Exception {
        FileStatus status = fs.getFileStatus(path);
        try (FSDataInputStream in = fs.open(path);
                FSDataInputStream known = fs.openFile(path).withFileStatus(status).build().get()) {
            TestStore.write(fs, path, TestStore.bytes(BYTES.length - 1));
            assertThrows(PathIOException.class, () -> in.readFully(0, new byte[10]));
            assertThrows(PathIOException.class, () -> known.readFully(new byte[10]));
            CompletableFuture<ByteBuffer> released = new CompletableFuture<>();
            FileRange range = FileRange.createFileRange(0, 10);
            ByteBuffer buffer = ByteBuffer.allocate(10);
            in.readVectored(List.of(range), size -> buffer, released::complete);
            assertEquals(PathIOException.class, failure(range).getClass());
            assertSame(buffer, released.get(60, TimeUnit.SECONDS));
        }
    }

    /** What a read of a range fails with. */
    private static Throwable failure(FileRange range) {
        return assertThrows(
                        ExecutionException.class, () -> range.getData().get(60, TimeUnit.SECONDS))
                .getCause();
    }

    @Test
    void everyRangeFailsWhateverTheReleaseDoes() throws Exception {
        List<FileRange> ranges =
                List.of(FileRange.createFileRange(0, 10), FileRange.createFileRange(20, 10));
        CountDownLatch released = new CountDownLatch(2);
        try (FSDataInputStream in = fs.open(path)) {
            TestStore.write(fs, path, "another");
            in.readVectored(
                    ranges,
                    ByteBuffer::allocate,
                    buffer -> {
                        released.countDown();
                        throw new IllegalStateException("not mine");
                    });
            for (FileRange range : ranges) {
                assertEquals(PathIOException.class, failure(range).getClass());
            }
            assertTrue(released.await(60, TimeUnit.SECONDS));
        }
    }

    @Test
    void rangesFailWhenTheFileSystemIsClosed() throws Exception {
        FileSystem closed = TestStore.fileSystem("fs.tidegate.threads", "1");
        try (FSDataInputStream in = closed.open(path)) {
            closed.close();
            FileRange range = FileRange.createFileRange(0, 10);
            in.readVectored(List.of(range), ByteBuffer::allocate);
            assertTrue(failure(range).getMessage().contains("is closed"));
            assertThrows(IOException.class, () -> closed.openFile(path).build());
        }
    }

    /** What follows an opened file may wait for reads, also where one thread makes all requests. */
    @Test
    void aContinuationTakesNoThreadFromTheRequests() throws Exception {
        FileRange range = FileRange.createFileRange(0, 10);
        FileRange next = FileRange.createFileRange(10, 10);
        try (FileSystem one = TestStore.fileSystem("fs.tidegate.threads", "1")) {
            CompletableFuture<Integer> read =
                    one.openFile(path)
                            .build()
                            .thenApply(
                                    in -> {
                                        try (in) {
                                            in.readVectored(List.of(range), ByteBuffer::allocate);
                                            return range.getData()
                                                    .thenApply(
                                                            first -> {
                                                                read(in, next);
                                                                return next.getData().join();
                                                            })
                                                    .join()
                                                    .remaining();
                                        } catch (IOException e) {
                                            throw new CompletionException(e);
                                        }
                                    });
            assertEquals(10, read.get(60, TimeUnit.SECONDS));
        }
    }

    private static void read(FSDataInputStream in, FileRange range) {
        try {
            in.readVectored(List.of(range), ByteBuffer::allocate);
        } catch (IOException e) {
            throw new CompletionException(e);
        }
    }

    @Test
    void anInterruptEndsARead() throws Exception {
        try (FSDataInputStream in = fs.open(path)) {
            Thread.currentThread().interrupt();
            assertThrows(InterruptedIOException.class, () -> in.read());
            assertTrue(Thread.interrupted());
        }
    }
}
