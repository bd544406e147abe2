package io.tidegate.hadoop;

import io.tidegate.ObjectInfo;

import org.apache.hadoop.fs.BlockLocation;
import org.apache.hadoop.fs.EtagSource;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;

import java.time.Instant;

/**
 * The status of a file or a directory. A file that is opened with its status is opened without a
 * request, and is the object that the status was made of.
 */
final class ObjectStatus extends FileStatus implements EtagSource {
    private static final long serialVersionUID = 1;

    /** What the store says; null for a directory, and after this was sent to another process. */
    private final transient ObjectInfo object;

    private final String etag;

    private ObjectStatus(
            long size, boolean isDirectory, Facts facts, long time, Path path, ObjectInfo object) {
        super(
                size,
                isDirectory,
                1,
                isDirectory ? 0 : facts.blockSize,
                time,
                0,
                FsPermission.createImmutable((short) (isDirectory ? 0777 : 0666)),
                facts.owner,
                facts.owner,
                path);
        this.object = object;
        etag = object == null ? "" : tag(object);
    }

    /**
     * What a store does not say.
     *
     * @param owner the user of this process
     * @param blockSize the size of all files' blocks
     */
    record Facts(String owner, long blockSize) {}

    /** An object whose size is known. */
    static ObjectStatus file(Path path, ObjectInfo object, Facts facts) {
        return new ObjectStatus(
                object.size().getAsLong(), false, facts, time(object), path, object);
    }

    /**
     * A file that was closed, and that the store does not show yet.
     *
     * @param time when it was closed, in milliseconds since 1970
     */
    static ObjectStatus unpublished(Path path, long size, long time, Facts facts) {
        return new ObjectStatus(size, false, facts, time, path, null);
    }

    /**
     * A directory.
     *
     * @param marker its marker; null if it has none, or a listing does not say
     */
    static ObjectStatus directory(Path path, ObjectInfo marker, Facts facts) {
        return new ObjectStatus(0, true, facts, marker == null ? 0 : time(marker), path, null);
    }

    private static long time(ObjectInfo object) {
        return object.lastModified().map(Instant::toEpochMilli).orElse(0L);
    }

    /** What tells the object's content from others': the tag, else the version. */
    static String tag(ObjectInfo object) {
        return object.etag().or(object::version).orElse("");
    }

    /** The object; null if this status does not have it. */
    ObjectInfo object() {
        return object;
    }

    @Override
    public String getEtag() {
        return etag;
    }

    /** The same with the locations of its blocks. */
    Located at(BlockLocation[] locations) {
        return new Located(this, locations);
    }

    // As Hadoop has it: statuses of the same path are equal.
    @Override
    public boolean equals(Object other) {
        return super.equals(other);
    }

    @Override
    public int hashCode() {
        return super.hashCode();
    }

    /** A status with the locations of its blocks. */
    static final class Located extends LocatedFileStatus implements EtagSource {
        private static final long serialVersionUID = 1;

        private final ObjectStatus status;

        private Located(ObjectStatus status, BlockLocation[] locations) {
            super(status, locations);
            this.status = status;
        }

        /** The object; null if this status does not have it. */
        ObjectInfo object() {
            return status.object;
        }

        @Override
        public String getEtag() {
            return status.etag;
        }

        @Override
        public boolean equals(Object other) {
            return super.equals(other);
        }

        @Override
        public int hashCode() {
            return super.hashCode();
        }
    }
}
