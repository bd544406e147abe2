package io.tidegate.hadoop;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.apache.hadoop.fs.Abortable;
import org.apache.hadoop.fs.CommonPathCapabilities;
import org.apache.hadoop.fs.EtagSource;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileChecksum;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Options.CreateFileOptionKeys;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathIOException;
import org.apache.hadoop.fs.StreamCapabilities;
import org.junit.jupiter.api.Test;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.io.OutputStream;
import java.util.HexFormat;

/** What is published, and when. */
class WritingTest {
    private static final String ABSENT =
            CreateFileOptionKeys.FS_OPTION_CREATE_CONDITIONAL_OVERWRITE;
    private static final String ETAG =
            CreateFileOptionKeys.FS_OPTION_CREATE_CONDITIONAL_OVERWRITE_ETAG;

    private final FileSystem fs = TestStore.fileSystem();
    private final Path path = new Path(TestStore.directory(), "file");

    WritingTest() throws IOException {}

    private FSDataOutputStream built(String name, String value) throws IOException {
        return (FSDataOutputStream) fs.createFile(path).recursive().must(name, value).build();
    }

    @Test
    void aFileIsVisibleWhenItWasClosed() throws IOException {
        byte[] bytes = TestStore.bytes(20 << 20);
        try (FSDataOutputStream out = fs.create(path)) {
            out.write(bytes, 0, 11 << 20);
            out.write(bytes[11 << 20]);
            out.flush();
            assertFalse(fs.exists(path));
            out.write(bytes, (11 << 20) + 1, bytes.length - (11 << 20) - 1);
            assertEquals(bytes.length, out.getPos());
        }
        assertArrayEquals(bytes, TestStore.read(fs, path));
    }

    @Test
    void anAbortedFileIsNotPublishedByItsClose() throws IOException {
        FSDataOutputStream out = fs.create(path);
        assertTrue(out.hasCapability(StreamCapabilities.ABORTABLE_STREAM));
        out.write(TestStore.bytes(9 << 20));
        Abortable.AbortableResult result = out.abort();
        assertFalse(result.alreadyClosed());
        assertNull(result.anyCleanupException());
        out.close();
        assertFalse(fs.exists(path));
        assertTrue(out.abort().alreadyClosed());
        assertThrows(IOException.class, () -> out.write(1));
    }

    @Test
    void aFileThatWasClosedCannotBeAborted() throws IOException {
        FSDataOutputStream out = fs.create(path);
        out.close();
        out.close();
        assertTrue(out.abort().alreadyClosed());
        assertTrue(fs.exists(path));
    }

    /** What no test can time: another thread has finished the file while this one aborts it. */
    private static final class FinishedByItsAbort implements TidegateOutputStream.Target {
        private boolean isFinished;

        @Override
        public OutputStream stream() {
            return OutputStream.nullOutputStream();
        }

        @Override
        public void abort() {
            isFinished = true;
        }

        @Override
        public boolean isFinished() {
            return isFinished;
        }
    }

    @Test
    void anAbortThatComesTooLateSaysSo() throws IOException {
        TidegateOutputStream.Target target = new FinishedByItsAbort();
        try (TidegateOutputStream out =
                new TidegateOutputStream(path, target, TidegateOutputStream.Sync.REFUSED)) {
            assertTrue(out.abort().alreadyClosed());
        }
    }

    @Test
    void anInterruptedWriteFailsForEver() throws IOException {
        FSDataOutputStream out = fs.create(path);
        out.write(TestStore.bytes(1 << 20));
        Thread.currentThread().interrupt();
        assertThrows(InterruptedIOException.class, () -> out.write(new byte[1 << 20]));
        assertTrue(Thread.interrupted());
        assertThrows(IOException.class, out::close);
        assertThrows(IOException.class, out::close);
        assertFalse(fs.exists(path));
    }

    @Test
    void ofTwoThatWantAnAbsentFileOneFails() throws IOException {
        FSDataOutputStream first = fs.create(path, false);
        FSDataOutputStream second = built(ABSENT, "true");
        first.write(1);
        second.write(2);
        first.close();
        assertThrows(FileAlreadyExistsException.class, second::close);
        assertThrows(FileAlreadyExistsException.class, second::close);
        assertArrayEquals(new byte[] {1}, TestStore.read(fs, path));
        assertThrows(FileAlreadyExistsException.class, () -> fs.create(path, false));
    }

    @Test
    void aFileIsReplacedOnlyIfItHasTheTag() throws IOException {
        TestStore.write(fs, path, "one");
        String tag = ((EtagSource) fs.getFileStatus(path)).getEtag();
        FSDataOutputStream late = built(ETAG, tag);
        late.write(3);
        try (FSDataOutputStream out = built(ETAG, tag)) {
            out.writeBytes("two");
        }
        assertEquals("two", TestStore.text(fs, path));
        assertThrows(PathIOException.class, late::close);
        assertThrows(PathIOException.class, () -> built(ETAG, tag));
        assertEquals("two", TestStore.text(fs, path));
    }

    @Test
    void aBuilderRefusesWhatItDoesNotKnow() {
        assertThrows(
                IllegalArgumentException.class,
                () -> fs.createFile(path).recursive().must("fs.test.unknown", 1).build());
        assertThrows(
                FileNotFoundException.class, () -> fs.createFile(path).build(), "no directory");
        assertThrows(UnsupportedOperationException.class, () -> fs.appendFile(path).build());
    }

    @Test
    void syncsFailUnlessASettingHasThemDoNothing() throws IOException {
        try (FSDataOutputStream out = fs.create(path)) {
            assertFalse(out.hasCapability(StreamCapabilities.HSYNC));
            assertThrows(UnsupportedOperationException.class, out::hsync);
            assertThrows(UnsupportedOperationException.class, out::hflush);
        }
        try (FileSystem lenient = TestStore.fileSystem("fs.tidegate.downgrade_syncable", "true");
                FSDataOutputStream out = lenient.create(path)) {
            out.hsync();
            out.hflush();
            assertFalse(out.hasCapability(StreamCapabilities.HSYNC));
        }
    }

    /** The known value is that of "123456789", by which catalogues tell checksums apart. */
    @Test
    void aChecksumHasTheAlgorithmAndTheValueOfTheStore() throws IOException {
        TestStore.write(fs, path, "123456789");
        assertNull(fs.getFileChecksum(path));
        assertFalse(fs.hasPathCapability(path, CommonPathCapabilities.FS_CHECKSUMS));
        try (FileSystem summed = summed()) {
            assertTrue(summed.hasPathCapability(path, CommonPathCapabilities.FS_CHECKSUMS));
            FileChecksum checksum = summed.getFileChecksum(path);
            assertEquals(algorithm(), checksum.getAlgorithmName());
            String known = isOn("gs") ? "e3069283" : "ae8b14860a799888";
            assertEquals(known, HexFormat.of().formatHex(checksum.getBytes()));
            assertNull(summed.getFileChecksum(path, 8));
            ByteArrayOutputStream sent = new ByteArrayOutputStream();
            checksum.write(new DataOutputStream(sent));
            ObjectChecksum received = new ObjectChecksum();
            received.readFields(new DataInputStream(new ByteArrayInputStream(sent.toByteArray())));
            assertEquals(checksum, received);
            assertEquals(checksum.toString(), received.toString());
        }
    }

    @Test
    void equalFilesHaveEqualChecksumsHoweverTheyWereUploaded() throws IOException {
        byte[] bytes = TestStore.bytes(12 << 20);
        TestStore.write(fs, path, bytes);
        try (FileSystem summed = summed()) {
            FileChecksum whole = summed.getFileChecksum(path);
            assertEquals(algorithm(), whole.getAlgorithmName());
            Path other = path.suffix("2");
            try (FileSystem parts = TestStore.fileSystem("fs.tidegate.part_size", "6MiB")) {
                TestStore.write(parts, other, bytes);
            }
            assertEquals(whole, summed.getFileChecksum(other));
            bytes[7]++;
            TestStore.write(summed, other, bytes);
            assertNotEquals(whole, summed.getFileChecksum(other));
        }
    }

    private static FileSystem summed() throws IOException {
        return TestStore.fileSystem("fs.tidegate.checksums", "true");
    }

    private static String algorithm() {
        return isOn("gs") ? "COMPOSITE-CRC32C" : "CRC64NVME";
    }

    private static boolean isOn(String scheme) {
        return TestStore.uri().getScheme().equals(scheme);
    }
}
