package io.tidegate.hadoop;

import io.tidegate.ObjectInfo;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.BlockLocation;
import org.apache.hadoop.fs.BulkDelete;
import org.apache.hadoop.fs.CommonPathCapabilities;
import org.apache.hadoop.fs.ContentSummary;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileChecksum;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.hadoop.fs.MultipartUploaderBuilder;
import org.apache.hadoop.fs.Options.OpenFileOptions;
import org.apache.hadoop.fs.ParentNotDirectoryException;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;
import org.apache.hadoop.fs.PathIOException;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.fs.impl.AbstractFSBuilderImpl;
import org.apache.hadoop.fs.impl.OpenFileParameters;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.fs.statistics.IOStatistics;
import org.apache.hadoop.fs.statistics.IOStatisticsSource;
import org.apache.hadoop.fs.statistics.StoreStatisticNames;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.util.Progressable;
import org.apache.hadoop.util.functional.RemoteIterators;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.URI;
import java.util.EnumSet;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;

/**
 * A file system of the objects in S3, Google Cloud Storage or Azure Blob Storage.
 *
 * <p>A file is visible when its stream was closed without a failure, whole, and never before. A
 * directory is an empty object {@code key/}, or follows from the keys below it. A rename copies and
 * then deletes. Owners, permissions and times can't be set: calls that set them do nothing.
 *
 * <p>Every call that waits fails with {@link java.io.InterruptedIOException} within 100 ms after
 * its thread was interrupted, but a rename of a directory, which first takes back its copies.
 * {@code docs/HADOOP.md} has the settings.
 */
public final class TidegateFileSystem extends FileSystem implements IOStatisticsSource {
    private static final long DEFAULT_BLOCK_SIZE = 128L << 20;
    private static final int DEFAULT_THREADS = 32;

    private final Counters counters =
            new Counters(
                    StoreStatisticNames.OP_BULK_DELETE,
                    StoreStatisticNames.OP_CREATE,
                    StoreStatisticNames.OP_DELETE,
                    StoreStatisticNames.OP_GET_CONTENT_SUMMARY,
                    StoreStatisticNames.OP_GET_FILE_CHECKSUM,
                    StoreStatisticNames.OP_GET_FILE_STATUS,
                    StoreStatisticNames.OP_LIST_FILES,
                    StoreStatisticNames.OP_LIST_STATUS,
                    StoreStatisticNames.OP_MKDIRS,
                    StoreStatisticNames.OP_OPEN,
                    StoreStatisticNames.OP_RENAME);

    private URI uri;
    private Path workingDirectory;
    private Buckets buckets;
    private Tree tree;
    private Listings listings;
    private AttemptFiles attemptFiles;
    private Creation creation;
    private Removal removal;
    private Renaming renaming;
    private Workers workers;
    private TidegateOutputStream.Sync sync;
    private boolean hasChecksums;

    /** As Hadoop makes it: {@link #initialize} follows. */
    public TidegateFileSystem() {}

    /** {@code tg} before {@link #initialize}, the scheme of the URI after it. */
    @Override
    public String getScheme() {
        return uri == null ? Buckets.TIDEGATE : uri.getScheme();
    }

    /**
     * {@inheritDoc} Sends nothing: a bucket that does not exist, and credentials that do not fit,
     * are found by the first call.
     *
     * @throws IllegalArgumentException if the URI names no bucket
     */
    @Override
    public void initialize(URI name, Configuration conf) throws IOException {
        super.initialize(name, conf);
        setConf(conf);
        buckets = new Buckets(name, conf);
        uri = URI.create(name.getScheme() + "://" + name.getRawAuthority());
        String user = UserGroupInformation.getCurrentUser().getShortUserName();
        workingDirectory = new Path("/user", user).makeQualified(uri, new Path("/"));
        long blockSize = conf.getLongBytes(Settings.name(Settings.BLOCK_SIZE), DEFAULT_BLOCK_SIZE);
        workers = new Workers(conf.getInt(Settings.name(Settings.THREADS), DEFAULT_THREADS));
        tree = new Tree(new ObjectStatus.Facts(user, blockSize));
        listings = new Listings(tree);
        attemptFiles = new AttemptFiles(tree.facts());
        creation = new Creation(tree);
        removal = new Removal(tree);
        renaming = new Renaming(tree, workers);
        hasChecksums = conf.getBoolean(Settings.name(Settings.CHECKSUMS), false);
        sync =
                conf.getBoolean(Settings.name(Settings.DOWNGRADE_SYNCABLE), false)
                        ? TidegateOutputStream.Sync.IGNORED
                        : TidegateOutputStream.Sync.REFUSED;
    }

    @Override
    public URI getUri() {
        return uri;
    }

    /** There are no tokens, so no service has a name, and no host is looked up. */
    @Override
    public String getCanonicalServiceName() {
        return null;
    }

    @Override
    public Path getWorkingDirectory() {
        return workingDirectory;
    }

    @Override
    public void setWorkingDirectory(Path directory) {
        workingDirectory = makeQualified(directory);
    }

    @Override
    @SuppressWarnings("deprecation") // Hadoop calls this one.
    public long getDefaultBlockSize() {
        return tree.facts().blockSize();
    }

    /** The bucket and the key of a path of this file system. */
    ObjectPath locate(Path path) throws IOException {
        checkPath(path);
        return buckets.locate(makeQualified(path));
    }

    private static void refuseInWorkPath(ObjectPath at, String why) throws PathIOException {
        Optional<WorkPath.Place> place = WorkPath.place(at);
        if (place.isPresent()) {
            throw AttemptFiles.failure(place.get(), why);
        }
    }

    private void counted(String operation) {
        counters.add(operation, 1);
    }

    // Reading.

    private ObjectInfo file(ObjectPath at) throws IOException {
        refuseInWorkPath(at, "nobody can read it before the job is committed");
        return tree.file(at)
                .orElseThrow(() -> new FileNotFoundException("there is no file at " + at.path()));
    }

    @Override
    public FSDataInputStream open(Path path, int bufferSize) throws IOException {
        ObjectPath at = locate(path);
        return open(at, file(at), ReadPolicy.ADAPTIVE);
    }

    private FSDataInputStream open(ObjectPath at, ObjectInfo object, ReadPolicy policy)
            throws IOException {
        counted(StoreStatisticNames.OP_OPEN);
        statistics.incrementReadOps(1);
        return new FSDataInputStream(
                new TidegateInputStream(at, object, policy, workers, statistics));
    }

    /**
     * {@inheritDoc} A status of this file system saves the request that looks for the file. A
     * length saves none.
     */
    @Override
    protected CompletableFuture<FSDataInputStream> openFileWithOptions(
            Path path, OpenFileParameters parameters) throws IOException {
        AbstractFSBuilderImpl.rejectUnknownMandatoryKeys(
                parameters.getMandatoryKeys(),
                OpenFileOptions.FS_OPTION_OPENFILE_STANDARD_OPTIONS,
                "for " + path);
        ReadPolicy policy =
                ReadPolicy.of(
                        parameters
                                .getOptions()
                                .get(OpenFileOptions.FS_OPTION_OPENFILE_READ_POLICY, ""));
        ObjectPath at = locate(path);
        FileStatus status = parameters.getStatus();
        ObjectInfo known = object(status);
        if (known != null && status.getPath().equals(at.path())) {
            return CompletableFuture.completedFuture(open(at, known, policy));
        }
        CompletableFuture<FSDataInputStream> result = new CompletableFuture<>();
        workers.start(
                () -> {
                    try {
                        FSDataInputStream opened = open(at, file(at), policy);
                        workers.complete(() -> result.complete(opened));
                    } catch (Throwable e) {
                        workers.complete(() -> result.completeExceptionally(e));
                    }
                });
        return result;
    }

    /** The object of a status; null if it has none. */
    private static ObjectInfo object(FileStatus status) {
        if (status instanceof ObjectStatus known) {
            return known.object();
        }
        return status instanceof ObjectStatus.Located located ? located.object() : null;
    }

    /** {@inheritDoc} Null unless {@code fs.tidegate.checksums} is set: then nothing is asked. */
    @Override
    public FileChecksum getFileChecksum(Path path, long length) throws IOException {
        counted(StoreStatisticNames.OP_GET_FILE_CHECKSUM);
        if (!hasChecksums) {
            return null;
        }
        ObjectPath at = locate(path);
        ObjectInfo file = file(at);
        // The store has none of the first bytes alone.
        boolean isWhole = length >= file.size().getAsLong();
        return isWhole ? ObjectChecksum.of(file).orElse(null) : null;
    }

    // Writing.

    @Override
    public FSDataOutputStream create(
            Path path,
            FsPermission permission,
            boolean overwrite,
            int bufferSize,
            short replication,
            long blockSize,
            Progressable progress)
            throws IOException {
        WriteCondition condition =
                overwrite ? new WriteCondition.None() : new WriteCondition.Absent();
        return create(path, condition, Map.of());
    }

    @Override
    public FSDataOutputStream createNonRecursive(
            Path path,
            FsPermission permission,
            EnumSet<CreateFlag> flags,
            int bufferSize,
            short replication,
            long blockSize,
            Progressable progress)
            throws IOException {
        if (flags.contains(CreateFlag.APPEND)) {
            return append(path, bufferSize, progress);
        }
        checkParent(path);
        boolean overwrite = flags.contains(CreateFlag.OVERWRITE);
        return create(path, permission, overwrite, bufferSize, replication, blockSize, progress);
    }

    @Override
    public FSDataOutputStreamBuilder<?, ?> createFile(Path path) {
        return new CreateBuilder(this, path).create().overwrite(true);
    }

    @Override
    public FSDataOutputStreamBuilder<?, ?> appendFile(Path path) {
        return new CreateBuilder(this, path).append();
    }

    /**
     * Fails unless a path is in a directory.
     *
     * @throws FileNotFoundException if there is nothing above it
     * @throws ParentNotDirectoryException if there is a file above it
     */
    void checkParent(Path path) throws IOException {
        ObjectPath parent = locate(path).parent();
        if (WorkPath.place(parent).isPresent()) {
            return;
        }
        if (!tree.isDirectory(parent)) {
            if (tree.file(parent).isPresent()) {
                throw new ParentNotDirectoryException(parent.path() + " is a file");
            }
            throw Failures.missing(parent.path());
        }
    }

    /** Creates a file, with options beside those of the settings. */
    FSDataOutputStream create(Path path, WriteCondition condition, Map<String, String> attributes)
            throws IOException {
        counted(StoreStatisticNames.OP_CREATE);
        statistics.incrementWriteOps(1);
        ObjectPath at = locate(path);
        Optional<WorkPath.Place> place = WorkPath.place(at);
        TidegateOutputStream.Target target =
                place.isPresent()
                        ? attemptFiles.create(
                                place.get(), condition, Creation.options(at, attributes))
                        : creation.open(at, condition, attributes);
        return new FSDataOutputStream(
                new TidegateOutputStream(at.path(), target, sync), statistics);
    }

    @Override
    public MultipartUploaderBuilder<?, ?> createMultipartUploader(Path base) throws IOException {
        UnfinishedJobs.refuseInside(locate(base), Creation.ONLY_ATTEMPTS);
        return new UploaderBuilder(this, makeQualified(base), tree, workers);
    }

    /** An object can't be appended to. */
    @Override
    public FSDataOutputStream append(Path path, int bufferSize, Progressable progress)
            throws IOException {
        refuseInWorkPath(locate(path), "nothing can be appended to it");
        throw new UnsupportedOperationException("an object can't be appended to: " + path);
    }

    // Directories.

    @Override
    public boolean mkdirs(Path path, FsPermission permission) throws IOException {
        counted(StoreStatisticNames.OP_MKDIRS);
        statistics.incrementWriteOps(1);
        ObjectPath at = locate(path);
        // A work path has all directories that its files need.
        if (WorkPath.place(at).isEmpty()) {
            tree.make(at);
        }
        return true;
    }

    @Override
    public boolean rename(Path from, Path to) throws IOException {
        counted(StoreStatisticNames.OP_RENAME);
        statistics.incrementWriteOps(1);
        ObjectPath source = locate(from);
        ObjectPath target = locate(to);
        String why = "it can't be renamed, and the commit of the job publishes it where it belongs";
        refuseInWorkPath(source, why);
        refuseInWorkPath(target, why);
        UnfinishedJobs.refuseRename(source, source.prefix());
        UnfinishedJobs.refuseInside(target, "the end of the job deletes what is here");
        return renaming.rename(source, target);
    }

    @Override
    public boolean delete(Path path, boolean recursive) throws IOException {
        counted(StoreStatisticNames.OP_DELETE);
        statistics.incrementWriteOps(1);
        ObjectPath at = locate(path);
        Optional<WorkPath.Place> place = WorkPath.place(at);
        return place.isPresent() ? attemptFiles.delete(place.get()) : removal.delete(at, recursive);
    }

    @Override
    public BulkDelete createBulkDelete(Path path) throws IOException {
        counted(StoreStatisticNames.OP_BULK_DELETE);
        Path base = makeQualified(path);
        return new ObjectBulkDelete(base, locate(base), buckets, counters);
    }

    // Statuses and listings.

    @Override
    public FileStatus getFileStatus(Path path) throws IOException {
        counted(StoreStatisticNames.OP_GET_FILE_STATUS);
        statistics.incrementReadOps(1);
        Path qualified = makeQualified(path);
        if (buckets.isAbove(qualified)) {
            return ObjectStatus.directory(qualified, null, tree.facts());
        }
        ObjectPath at = locate(qualified);
        Optional<WorkPath.Place> place = WorkPath.place(at);
        Optional<ObjectStatus> found =
                place.isPresent() ? attemptFiles.find(place.get()) : tree.find(at);
        return found.orElseThrow(() -> Failures.missing(at.path()));
    }

    private RemoteIterator<ObjectStatus> in(Path path) throws IOException {
        counted(StoreStatisticNames.OP_LIST_STATUS);
        statistics.incrementReadOps(1);
        return in(locate(path));
    }

    private RemoteIterator<ObjectStatus> in(ObjectPath at) throws IOException {
        Optional<WorkPath.Place> place = WorkPath.place(at);
        return place.isPresent() ? attemptFiles.in(place.get()) : listings.in(at);
    }

    private RemoteIterator<ObjectStatus> below(ObjectPath at) throws IOException {
        Optional<WorkPath.Place> place = WorkPath.place(at);
        return place.isPresent() ? attemptFiles.below(place.get()) : listings.filesBelow(at);
    }

    @Override
    public FileStatus[] listStatus(Path path) throws IOException {
        return RemoteIterators.toArray(listStatusIterator(path), new FileStatus[0]);
    }

    @Override
    public RemoteIterator<FileStatus> listStatusIterator(Path path) throws IOException {
        return RemoteIterators.typeCastingRemoteIterator(in(path));
    }

    @Override
    protected RemoteIterator<LocatedFileStatus> listLocatedStatus(Path path, PathFilter filter)
            throws IOException {
        return RemoteIterators.mappingRemoteIterator(
                RemoteIterators.filteringRemoteIterator(
                        in(path), status -> filter.accept(status.getPath())),
                this::located);
    }

    /** {@inheritDoc} Recursive ones are one listing, whatever directories there are. */
    @Override
    public RemoteIterator<LocatedFileStatus> listFiles(Path path, boolean recursive)
            throws IOException {
        counted(StoreStatisticNames.OP_LIST_FILES);
        statistics.incrementReadOps(1);
        ObjectPath at = locate(path);
        RemoteIterator<ObjectStatus> statuses = recursive ? below(at) : in(at);
        return RemoteIterators.mappingRemoteIterator(
                RemoteIterators.filteringRemoteIterator(statuses, FileStatus::isFile),
                this::located);
    }

    private LocatedFileStatus located(ObjectStatus status) throws IOException {
        BlockLocation[] blocks =
                status.isFile() ? getFileBlockLocations(status, 0, status.getLen()) : null;
        return status.at(blocks);
    }

    @Override
    public ContentSummary getContentSummary(Path path) throws IOException {
        counted(StoreStatisticNames.OP_GET_CONTENT_SUMMARY);
        statistics.incrementReadOps(1);
        ObjectPath at = locate(path);
        return WorkPath.place(at).isPresent()
                ? super.getContentSummary(path)
                : listings.summary(at);
    }

    // About the file system.

    @Override
    public boolean hasPathCapability(Path path, String capability) throws IOException {
        Path qualified = makeQualified(path);
        if (capability.equalsIgnoreCase(CommonPathCapabilities.FS_CHECKSUMS)) {
            return hasChecksums;
        }
        if (capability.equalsIgnoreCase(CommonPathCapabilities.FS_MULTIPART_UPLOADER)) {
            return !buckets.isAbove(qualified)
                    && TidegateMultipartUploader.isSupported(locate(qualified));
        }
        return Capabilities.ofPaths(capability) || super.hasPathCapability(path, capability);
    }

    @Override
    public IOStatistics getIOStatistics() {
        return counters;
    }

    @Override
    public void close() throws IOException {
        super.close();
        if (workers != null) {
            workers.close();
        }
    }

    @Override
    public String toString() {
        return "TidegateFileSystem " + uri;
    }
}
