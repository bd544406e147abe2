package io.tidegate.hadoop;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.BBPartHandle;
import org.apache.hadoop.fs.BBUploadHandle;
import org.apache.hadoop.fs.CommonPathCapabilities;
import org.apache.hadoop.fs.FileContext;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.MultipartUploader;
import org.apache.hadoop.fs.PartHandle;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathIOException;
import org.apache.hadoop.fs.UploadHandle;
import org.apache.hadoop.util.functional.FutureIO;
import org.junit.jupiter.api.Test;

import java.io.ByteArrayInputStream;
import java.io.EOFException;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;

/** The uploader where Hadoop's contract leaves it open. */
class UploaderTest {
    private static final byte[] SMALL = TestStore.bytes(100);

    private final Path directory = TestStore.directory();
    private final Path file = new Path(directory, "file");

    private static UploadHandle start(MultipartUploader uploader, Path path) throws IOException {
        return FutureIO.awaitFuture(uploader.startUpload(path));
    }

    private static PartHandle put(
            MultipartUploader uploader, UploadHandle upload, Path path, int number)
            throws IOException {
        InputStream stream = new ByteArrayInputStream(SMALL);
        return FutureIO.awaitFuture(
                uploader.putPart(upload, number, true, path, stream, SMALL.length));
    }

    /** Of another file system, and of one that a file context has. */
    @Test
    void handlesAreGoodEverywhere() throws Exception {
        UploadHandle upload;
        PartHandle part;
        try (FileSystem fs = TestStore.fileSystem("fs.tidegate.strategy", "chunked");
                MultipartUploader uploader = fs.createMultipartUploader(directory).build()) {
            upload = BBUploadHandle.from(start(uploader, file).bytes());
            part = BBPartHandle.from(put(uploader, upload, file, 3).bytes());
        }
        FileContext context =
                FileContext.getFileContext(
                        TestStore.uri(), TestStore.configure(new Configuration()));
        try (MultipartUploader uploader = context.createMultipartUploader(directory).build()) {
            FutureIO.awaitFuture(uploader.complete(upload, file, Map.of(3, part)));
        }
        FileSystem fs = TestStore.fileSystem();
        assertArrayEquals(SMALL, TestStore.read(fs, file));
        // It has ended: nothing can be added, and the file stays.
        MultipartUploader uploader = fs.createMultipartUploader(directory).build();
        assertThrows(FileNotFoundException.class, () -> put(uploader, upload, file, 4));
        assertThrows(
                FileNotFoundException.class,
                () -> FutureIO.awaitFuture(uploader.abort(upload, file)));
        assertTrue(fs.exists(file));
    }

    @Test
    void otherHandlesAreRefused() throws Exception {
        FileSystem fs = TestStore.fileSystem();
        MultipartUploader uploader = fs.createMultipartUploader(directory).build();
        UploadHandle upload = start(uploader, file);
        PartHandle part = put(uploader, upload, file, 1);
        UploadHandle none = BBUploadHandle.from(ByteBuffer.wrap(SMALL));
        Path other = new Path(directory, "other");
        assertThrows(FileNotFoundException.class, () -> put(uploader, none, file, 1));
        assertThrows(FileNotFoundException.class, () -> put(uploader, upload, other, 1));
        assertThrows(
                FileNotFoundException.class,
                () -> FutureIO.awaitFuture(uploader.complete(none, file, Map.of(1, part))));
        PartHandle torn = BBPartHandle.from(ByteBuffer.wrap(SMALL));
        assertThrows(IOException.class, () -> uploader.complete(upload, file, Map.of(1, torn)));
        assertThrows(
                IllegalArgumentException.class,
                () -> uploader.complete(upload, file, Map.of(2, part)));
        assertThrows(
                IllegalArgumentException.class, () -> uploader.startUpload(new Path("/beside")));
        FutureIO.awaitFuture(uploader.complete(upload, file, Map.of(1, part)));
        assertEquals(SMALL.length, fs.getFileStatus(file).getLen());
    }

    @Test
    void aStreamIsClosedAndHasAllBytesOfItsPart() throws Exception {
        FileSystem fs = TestStore.fileSystem();
        MultipartUploader uploader = fs.createMultipartUploader(directory).build();
        UploadHandle upload = start(uploader, file);
        AtomicBoolean isClosed = new AtomicBoolean();
        InputStream stream =
                new ByteArrayInputStream(SMALL) {
                    @Override
                    public void close() {
                        isClosed.set(true);
                    }
                };
        assertThrows(
                EOFException.class,
                () ->
                        FutureIO.awaitFuture(
                                uploader.putPart(upload, 1, true, file, stream, SMALL.length + 1)));
        assertTrue(isClosed.get());
        FutureIO.awaitFuture(uploader.abort(upload, file));
        assertFalse(fs.exists(file));
    }

    @Test
    void theWorkPathOfAJobIsRefused() throws Exception {
        FileSystem fs = TestStore.fileSystem();
        String uploader = CommonPathCapabilities.FS_MULTIPART_UPLOADER;
        Path work = new Path(directory, "__tidegate_one");
        Path inside = new Path(work, "files/task/attempt/file");
        assertTrue(fs.hasPathCapability(directory, uploader));
        assertFalse(fs.hasPathCapability(work, uploader));
        assertFalse(fs.hasPathCapability(inside, uploader));
        assertThrows(PathIOException.class, () -> fs.createMultipartUploader(work));
        MultipartUploader above = fs.createMultipartUploader(directory).build();
        assertThrows(PathIOException.class, () -> above.startUpload(inside));
        assertEquals(-1, FutureIO.awaitFuture(above.abortUploadsUnderPath(directory)));
    }
}
