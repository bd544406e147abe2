package io.tidegate.hadoop;

import io.tidegate.Entry;
import io.tidegate.ObjectInfo;
import io.tidegate.Options;
import io.tidegate.TidegateException;

import org.apache.hadoop.fs.PathIOException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Renames files and directories: the store copies all objects, and then those that were copied are
 * deleted. Readers see both for a while. If a copy fails, the source is whole, and the copies that
 * were made are deleted. The rules are those of HDFS.
 */
final class Renaming {
    private static final Logger LOG = LoggerFactory.getLogger(Renaming.class);

    /** How many copies are handed to the threads at once. */
    private static final int PAGE = 1000;

    private final Tree tree;
    private final Workers workers;

    Renaming(Tree tree, Workers workers) {
        this.tree = tree;
        this.workers = workers;
    }

    /**
     * Renames, unless the rules forbid it.
     *
     * @return false if nothing was done; the log says why
     * @throws IOException if a request failed: the source may be partly deleted, but only where its
     *     copy is whole
     * @throws java.io.InterruptedIOException if the thread was interrupted; of a directory, when
     *     the copies under way have ended and all were deleted
     * @throws org.apache.hadoop.fs.FileAlreadyExistsException if a file was written to the target
     *     meanwhile, which stays
     * @throws PathIOException if a file of the source was replaced meanwhile: the new one stays; or
     *     if a job writes to a directory of the source: the source is whole
     */
    boolean rename(ObjectPath from, ObjectPath to) throws IOException {
        if (from.isRoot()) {
            return refused(from, to, "a bucket can't be renamed");
        }
        Optional<ObjectStatus> source = tree.find(from);
        if (source.isEmpty()) {
            return refused(from, to, "there is no source");
        }
        boolean isFile = source.get().isFile();
        if (from.equals(to)) {
            return isFile || refused(from, to, "source and target are the same directory");
        }
        if (!isFile && from.contains(to)) {
            return refused(from, to, "the target is below the source");
        }
        Optional<ObjectStatus> found = tree.find(to);
        if (found.isPresent() && found.get().isFile()) {
            return refused(from, to, "the target is a file");
        }
        ObjectPath target = found.isPresent() ? to.child(from.name()) : to;
        if (target.equals(from)) {
            return refused(from, to, "the source is in the target already");
        }
        if (found.isPresent() && tree.find(target).isPresent()) {
            return refused(from, target, "the target exists");
        }
        if (found.isEmpty() && !tree.isDirectory(to.parent())) {
            return refused(from, to, "the parent of the target is no directory");
        }
        if (isFile) {
            moveFile(from, source.get().object(), target);
        } else {
            moveTree(from, target);
        }
        tree.keep(from.parent());
        return true;
    }

    private static boolean refused(ObjectPath from, ObjectPath to, String why) {
        LOG.info("rename of {} to {} refused: {}", from.path(), to.path(), why);
        return false;
    }

    private static void moveFile(ObjectPath from, ObjectInfo source, ObjectPath to)
            throws IOException {
        if (from.bucket().equals(to.bucket())) {
            try {
                from.store().rename(from.key(), to.key(), Options.of("create_only", "true"));
                return;
            } catch (TidegateException e) {
                if (e.kind() != TidegateException.Kind.UNSUPPORTED) {
                    throw Failures.of(from.path(), e);
                }
                // The store makes no copy of this object: below, this machine does.
            } catch (IOException e) {
                throw Failures.of(from.path(), e);
            }
        }
        Copying.copy(from, from.key(), to, to.key());
        if (!Removal.deleteIfSame(from, Identity.of(source))) {
            throw new PathIOException(
                    from.path().toString(),
                    "the file was replaced while it was copied to "
                            + to.path()
                            + ", and the new one stays");
        }
    }

    /** A copy that was made. */
    private record Copy(Identity source, Identity target) {}

    /**
     * Holds the keys of the tree in memory, with their tags: to delete nothing that was not copied,
     * and to take back the copies if one fails.
     */
    private void moveTree(ObjectPath from, ObjectPath to) throws IOException {
        Map<String, Copy> copies = new ConcurrentHashMap<>();
        try {
            copyTree(from, to, copies);
        } catch (Throwable e) {
            takeBack(to, copies, e);
            throw e;
        }
        // A file that came or was replaced meanwhile was perhaps not copied.
        List<String> changed =
                Removal.deleteKnown(
                        from, below -> Optional.ofNullable(copies.get(below)).map(Copy::source));
        if (!changed.isEmpty()) {
            throw new PathIOException(
                    from.path().toString(),
                    changed.size()
                            + " files were written while the directory was renamed, or the store"
                            + " gives no tag of them, and stay, such as "
                            + changed.get(0));
        }
    }

    private void copyTree(ObjectPath from, ObjectPath to, Map<String, Copy> copies)
            throws IOException {
        List<Entry> page = new ArrayList<>();
        Entries entries = Entries.below(from);
        while (entries.hasNext()) {
            Entry next = entries.next();
            UnfinishedJobs.refuseRename(from, next.key());
            page.add(next);
            if (page.size() == PAGE || !entries.hasNext()) {
                workers.each(
                        page,
                        entry -> {
                            String below = entry.key().substring(from.prefix().length());
                            String toKey = to.prefix() + below;
                            ObjectInfo copy = Copying.copy(from, entry.key(), to, toKey);
                            Identity source = Identity.of(entry.object().orElseThrow());
                            copies.put(below, new Copy(source, Identity.of(copy)));
                        });
                page.clear();
            }
        }
    }

    /**
     * Deletes the copies, so that nobody reads half of a tree, and a second rename finds no
     * directory to move the source into.
     *
     * @param failure gets what goes wrong as suppressed
     */
    private static void takeBack(ObjectPath to, Map<String, Copy> copies, Throwable failure) {
        // No call of an interrupted thread would begin.
        boolean isInterrupted = Thread.interrupted();
        try {
            List<String> others =
                    Removal.deleteKnown(
                            to, below -> Optional.ofNullable(copies.get(below)).map(Copy::target));
            if (!others.isEmpty()) {
                failure.addSuppressed(
                        new PathIOException(
                                to.path().toString(),
                                others.size()
                                        + " files stay that the rename is not known to have made,"
                                        + " such as "
                                        + others.get(0)));
            }
        } catch (IOException e) {
            failure.addSuppressed(e);
        } finally {
            if (isInterrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }
}
