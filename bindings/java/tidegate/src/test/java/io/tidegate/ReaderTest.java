package io.tidegate;

import static io.tidegate.Servers.bytes;
import static io.tidegate.Servers.fails;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.tidegate.TidegateException.Kind;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.ReadOnlyBufferException;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.NonWritableChannelException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

class ReaderTest {
    private static final byte[] BYTES = bytes(5 << 20);

    private static byte[] content(ByteBuffer buffer) {
        byte[] content = new byte[buffer.position()];
        buffer.duplicate().flip().get(content);
        return content;
    }

    @ParameterizedTest
    @MethodSource("io.tidegate.Servers#all")
    void inOrder(Store store) throws Exception {
        ObjectInfo object = store.put("r", BYTES);
        for (Options options :
                List.of(
                        Options.none(),
                        Options.of("random", "true"),
                        Options.none().and("if_unchanged", object))) {
            for (ByteBuffer all :
                    List.of(
                            ByteBuffer.allocate(BYTES.length),
                            ByteBuffer.allocateDirect(BYTES.length))) {
                try (Reader reader = store.reader("r", options)) {
                    assertEquals(BYTES.length, reader.size());
                    while (all.hasRemaining()) {
                        assertTrue(reader.read(all) > 0);
                    }
                    assertEquals(BYTES.length, reader.position());
                    assertEquals(-1, reader.read(ByteBuffer.allocate(1)));
                }
                assertArrayEquals(BYTES, content(all));
            }
        }
        try (InputStream stream = store.reader("r").asInputStream()) {
            assertEquals(BYTES[0] & 0xff, stream.read());
            assertArrayEquals(Arrays.copyOfRange(BYTES, 1, BYTES.length), stream.readAllBytes());
            assertEquals(-1, stream.read());
        }
    }

    @ParameterizedTest
    @MethodSource("io.tidegate.Servers#all")
    @SuppressWarnings("try")
    void atPositions(Store store) throws Exception {
        ObjectInfo object = store.put("r", BYTES);
        try (Reader reader = store.reader(object)) {
            for (ByteBuffer each :
                    List.of(ByteBuffer.allocate(1000), ByteBuffer.allocateDirect(1000))) {
                each.position(10);
                assertEquals(990, reader.read(1_000_000L, each));
                assertArrayEquals(
                        Arrays.copyOfRange(BYTES, 1_000_000, 1_000_990),
                        Arrays.copyOfRange(content(each), 10, 1000));
                assertEquals(5, reader.read(BYTES.length - 5L, each.clear()));
                assertEquals(-1, reader.read((long) BYTES.length, each));
            }
            assertEquals(0, reader.position());
            assertThrows(
                    ReadOnlyBufferException.class,
                    () -> reader.read(0, ByteBuffer.allocate(1).asReadOnlyBuffer()));
            assertThrows(
                    ReadOnlyBufferException.class,
                    () -> reader.read(0, ByteBuffer.allocateDirect(1).asReadOnlyBuffer()));
        }
        try (Reader reader = store.reader("r")) {
            for (int position : List.of(0, 3_000_000, 3_000_100, 50, BYTES.length - 1)) {
                ByteBuffer one = ByteBuffer.allocate(1);
                assertEquals(1, reader.position(position).read(one));
                assertEquals(BYTES[position], one.get(0));
            }
            assertEquals(-1, reader.position(BYTES.length + 7L).read(ByteBuffer.allocate(1)));
            assertThrows(IllegalArgumentException.class, () -> reader.position(-1));
            assertThrows(
                    NonWritableChannelException.class, () -> reader.write(ByteBuffer.allocate(1)));
            reader.close();
            assertThrows(ClosedChannelException.class, () -> reader.read(ByteBuffer.allocate(1)));
            assertThrows(ClosedChannelException.class, reader::position);
        }
    }

    @ParameterizedTest
    @MethodSource("io.tidegate.Servers#all")
    void ranges(Store store) throws Exception {
        store.put("r", BYTES);
        try (Reader reader = store.reader("r", Options.of("random", "true"))) {
            List<Range> ranges = new ArrayList<>();
            for (int number = 40; number-- > 0; ) {
                ByteBuffer buffer =
                        number % 2 == 0
                                ? ByteBuffer.allocate(5000)
                                : ByteBuffer.allocateDirect(5000).position(7).slice();
                ranges.add(new Range(100_000L * number, buffer));
            }
            ranges.add(new Range(4_000_000, ByteBuffer.allocateDirect(1_200_000)));
            reader.readRanges(ranges);
            for (Range range : ranges) {
                int start = (int) range.position();
                assertFalse(range.buffer().hasRemaining());
                assertArrayEquals(
                        Arrays.copyOfRange(BYTES, start, start + range.buffer().capacity()),
                        content(range.buffer()));
            }
            reader.readRanges(List.of());
            fails(
                    Kind.INVALID_INPUT,
                    () ->
                            reader.readRanges(
                                    List.of(new Range(BYTES.length - 1L, ByteBuffer.allocate(2)))));
            List<Range> overlapping =
                    List.of(
                            new Range(0, ByteBuffer.allocate(10)),
                            new Range(9, ByteBuffer.allocate(10)));
            fails(Kind.INVALID_INPUT, () -> reader.readRanges(overlapping));
            assertEquals(10, overlapping.get(0).buffer().remaining());
        }
    }

    /** An object as some stores list it: without its size. */
    private static ObjectInfo unsized(ObjectInfo object) throws TidegateException {
        Wire.Encoder listed =
                new Wire.Encoder().text(object.key()).number(-1).number(Long.MIN_VALUE);
        listed.text(object.etag().orElseThrow()).text(null).number(0).number(0);
        return ObjectInfo.of(new Wire.Decoder(listed.bytes()));
    }

    @Test
    void anObjectWithoutASizeIsNotEmpty() throws Exception {
        Store store = Servers.embedded();
        ObjectInfo listed = unsized(store.put("unsized", BYTES));
        try (InputStream stream = store.reader(listed).asInputStream()) {
            assertArrayEquals(BYTES, stream.readAllBytes());
        }
        store.put("unsized", bytes(10));
        fails(Kind.REPLACED, () -> store.reader(listed));
    }

    /** Reads until it fails, and says how many bytes came before. */
    private static long bytesBefore(Kind kind, Reader reader) throws IOException {
        long read = 0;
        ByteBuffer piece = ByteBuffer.allocate(10_000);
        while (true) {
            try {
                int more = reader.read(piece.clear());
                assertTrue(more > 0, "the object looked whole");
                read += more;
            } catch (TidegateException e) {
                assertEquals(kind, e.kind(), e.getMessage());
                return read;
            }
        }
    }

    @Test
    void aTornDownloadIsNeverWhole() throws Exception {
        Store store = Servers.impatient();
        store.put("torn", BYTES);
        try (Reader reader = store.reader("torn")) {
            assertTrue(bytesBefore(Kind.UNAVAILABLE, reader) < BYTES.length);
            fails(Kind.CLOSED, () -> reader.read(ByteBuffer.allocate(1)));
            reader.position(BYTES.length - 1L);
            fails(Kind.CLOSED, () -> reader.read(ByteBuffer.allocate(1)));
        }
    }

    @Test
    void aCorruptDownloadIsNeverWhole() throws Exception {
        Store store = Servers.impatient();
        store.put("corrupt", bytes(100_000));
        try (Reader reader = store.reader("corrupt")) {
            assertTrue(bytesBefore(Kind.INTEGRITY, reader) < 100_000);
            fails(Kind.CLOSED, () -> reader.read(ByteBuffer.allocate(1)));
        }
        fails(Kind.INTEGRITY, () -> store.get("corrupt"));
    }

    @ParameterizedTest
    @MethodSource("io.tidegate.Servers#all")
    void allBytesAreOfOneObject(Store store) throws Exception {
        ObjectInfo object = store.put("r", BYTES);
        try (Reader reader = store.reader(object)) {
            store.put("r", bytes(BYTES.length - 1));
            fails(Kind.REPLACED, () -> reader.read(0, ByteBuffer.allocate(10)));
            fails(
                    Kind.REPLACED,
                    () -> reader.readRanges(List.of(new Range(0, ByteBuffer.allocate(10)))));
            fails(Kind.REPLACED, () -> reader.read(ByteBuffer.allocate(10)));
        }
    }
}
