package io.tidegate.hadoop;

import io.tidegate.PartReceipt;
import io.tidegate.PartsUpload;
import io.tidegate.TidegateException;

import org.apache.hadoop.fs.BBPartHandle;
import org.apache.hadoop.fs.BBUploadHandle;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.PartHandle;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathHandle;
import org.apache.hadoop.fs.PathIOException;
import org.apache.hadoop.fs.UploadHandle;
import org.apache.hadoop.fs.impl.AbstractMultipartUploader;

import java.io.EOFException;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;

/**
 * Uploads whose parts any processes put, in any order. Handles have no credentials, and are good in
 * every process that reaches the bucket.
 *
 * <p>A file is visible, whole, once {@link #complete} has succeeded, which may be repeated. A
 * handle fails with {@link FileNotFoundException} if its upload has ended, if it is of another
 * path, or if it is no handle of this uploader. The requests run in threads of the file system:
 * cancelling a future, or interrupting the waiting thread, ends none of them. A part is held on the
 * heap while it is sent, and once more in native memory, beside the memory budget while it waits
 * for room there.
 *
 * <p>{@link #abortUploadsUnderPath} aborts nothing, and gives -1: nothing tells these uploads from
 * those of other writers at work. A sweep ends uploads that are old enough.
 */
public final class TidegateMultipartUploader extends AbstractMultipartUploader {
    /** The largest array that JVMs have. */
    private static final int LARGEST_PART = Integer.MAX_VALUE - 8;

    private final TidegateFileSystem fs;
    private final Tree tree;
    private final Workers workers;

    TidegateMultipartUploader(TidegateFileSystem fs, Path base, Tree tree, Workers workers) {
        super(base);
        this.fs = fs;
        this.tree = tree;
        this.workers = workers;
    }

    /** Whether an uploader can write to a path. Sends nothing. */
    static boolean isSupported(ObjectPath at) throws IOException {
        return WorkPath.ofJob(at).isEmpty() && PartsUpload.isSupported(at.store());
    }

    @Override
    public CompletableFuture<UploadHandle> startUpload(Path path) throws IOException {
        ObjectPath at = locate(path);
        Creation.checkPlace(at);
        return begin(
                at,
                () -> {
                    // An upload in parts is cut already.
                    PartsUpload upload =
                            PartsUpload.open(
                                    at.store(), at.key(), at.bucket().write().without("strategy"));
                    return BBUploadHandle.from(ByteBuffer.wrap(bytes(upload.id())));
                });
    }

    @Override
    public CompletableFuture<PartHandle> putPart(
            UploadHandle handle,
            int number,
            boolean isLast,
            Path path,
            InputStream stream,
            long length)
            throws IOException {
        Path qualified = fs.makeQualified(path);
        checkPutArguments(qualified, stream, number, handle, length);
        checkUploadId(handle.toByteArray());
        ObjectPath at = locate(path);
        Creation.checkPlace(at);
        if (length > LARGEST_PART) {
            throw new PathIOException(
                    at.path().toString(), "a part has at most " + LARGEST_PART + " bytes");
        }
        return begin(
                at,
                () -> {
                    ByteBuffer part;
                    try (stream) {
                        part = read(stream, (int) length);
                    }
                    PartReceipt receipt = upload(at, handle).putPart(number, part);
                    return BBPartHandle.from(ByteBuffer.wrap(bytes(receipt.toJson())));
                });
    }

    private static ByteBuffer read(InputStream stream, int length) throws IOException {
        byte[] part = new byte[length];
        int read = stream.readNBytes(part, 0, length);
        if (read < length) {
            throw new EOFException("the stream has " + read + " bytes of a part of " + length);
        }
        return ByteBuffer.wrap(part);
    }

    /**
     * {@inheritDoc}
     *
     * @throws FileAlreadyExistsException in the future, if there is a directory at the path
     */
    @Override
    public CompletableFuture<PathHandle> complete(
            UploadHandle handle, Path path, Map<Integer, PartHandle> parts) throws IOException {
        checkPartHandles(parts);
        checkUploadId(handle.toByteArray());
        ObjectPath at = locate(path);
        Creation.checkPlace(at);
        List<PartReceipt> receipts = new ArrayList<>();
        for (Map.Entry<Integer, PartHandle> part : parts.entrySet()) {
            PartReceipt receipt = PartReceipt.fromJson(text(part.getValue().toByteArray()));
            if (receipt.number() != part.getKey()) {
                throw new IllegalArgumentException(
                        "the handle of part " + part.getKey() + " is of part " + receipt.number());
            }
            receipts.add(receipt);
        }
        return begin(
                at,
                () -> {
                    PartsUpload upload = upload(at, handle);
                    if (tree.directory(at).isPresent()) {
                        throw new FileAlreadyExistsException(at.path() + " is a directory");
                    }
                    return new Published(bytes(ObjectStatus.tag(upload.complete(receipts))));
                });
    }

    @Override
    public CompletableFuture<Void> abort(UploadHandle handle, Path path) throws IOException {
        checkUploadId(handle.toByteArray());
        ObjectPath at = locate(path);
        return begin(
                at,
                () -> {
                    upload(at, handle).abandon();
                    return null;
                });
    }

    /** The place of a path below the base. */
    private ObjectPath locate(Path path) throws IOException {
        checkPath(fs.makeQualified(path));
        return fs.locate(path);
    }

    /** The upload of a handle. */
    private static PartsUpload upload(ObjectPath at, UploadHandle handle) throws IOException {
        PartsUpload upload;
        try {
            upload = PartsUpload.of(at.store(), text(handle.toByteArray()));
        } catch (TidegateException e) {
            throw e.kind() == TidegateException.Kind.INVALID_INPUT ? missing(at, e) : e;
        }
        if (!upload.key().equals(at.key())) {
            throw missing(at, null);
        }
        return upload;
    }

    private interface Request<T> {
        T send() throws IOException;
    }

    private <T> CompletableFuture<T> begin(ObjectPath at, Request<T> request) throws IOException {
        CompletableFuture<T> result = new CompletableFuture<>();
        workers.start(
                () -> {
                    try {
                        T sent = request.send();
                        workers.complete(() -> result.complete(sent));
                    } catch (IOException e) {
                        workers.complete(() -> result.completeExceptionally(failure(at, e)));
                    } catch (Throwable e) {
                        workers.complete(() -> result.completeExceptionally(e));
                    }
                });
        return result;
    }

    private static IOException failure(ObjectPath at, IOException e) {
        if (e instanceof TidegateException known) {
            return switch (known.kind()) {
                case SESSION_LOST, CLOSED -> missing(at, known);
                default -> Failures.of(at.path(), known);
            };
        }
        return e;
    }

    private static FileNotFoundException missing(ObjectPath at, TidegateException cause) {
        String why = cause == null ? "it is of another path" : cause.getMessage();
        FileNotFoundException missing =
                new FileNotFoundException(
                        at.path() + ": the handle is of no upload that is under way: " + why);
        missing.initCause(cause);
        return missing;
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }

    /** What was published: its tag, which is that of the file's status. */
    private static final class Published implements PathHandle {
        private static final long serialVersionUID = 1;

        private final byte[] tag;

        Published(byte[] tag) {
            this.tag = tag;
        }

        @Override
        public ByteBuffer bytes() {
            return ByteBuffer.wrap(tag).asReadOnlyBuffer();
        }

        @Override
        public boolean equals(Object other) {
            return other instanceof PathHandle that && bytes().equals(that.bytes());
        }

        @Override
        public int hashCode() {
            return bytes().hashCode();
        }
    }
}
