package io.tidegate.hadoop;

import io.tidegate.Entry;
import io.tidegate.Options;

import org.apache.hadoop.fs.PathIOException;
import org.apache.hadoop.util.functional.RemoteIterators;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * Renames files and directories: the store copies all objects, and then those that were copied are
 * deleted. Readers see both for a while. If a copy fails, the source is whole, and the target has
 * the copies that were made. The rules are those of HDFS.
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
     * @throws PathIOException if a file of the source was replaced meanwhile: the new one stays
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
        if (found.isEmpty() && tree.directory(to.parent()).isEmpty()) {
            return refused(from, to, "the parent of the target is no directory");
        }
        if (isFile) {
            moveFile(from, target);
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

    private static void moveFile(ObjectPath from, ObjectPath to) throws IOException {
        if (!from.bucket().equals(to.bucket())) {
            copy(from, from.key(), to, to.key());
            Removal.deleteObject(from, from.key());
            return;
        }
        try {
            from.store().rename(from.key(), to.key(), Options.of("create_only", "true"));
        } catch (IOException e) {
            throw Failures.of(from.path(), e);
        }
    }

    /**
     * Holds the keys of the tree in memory, with their tags, to delete nothing that was not copied.
     */
    private void moveTree(ObjectPath from, ObjectPath to) throws IOException {
        Map<String, String> copied = new HashMap<>();
        List<String> page = new ArrayList<>();
        Entries entries = Entries.below(from);
        while (entries.hasNext()) {
            Entry entry = entries.next();
            page.add(entry.key());
            copied.put(entry.key(), tag(entry));
            if (page.size() == PAGE || !entries.hasNext()) {
                workers.each(
                        page,
                        key -> {
                            String below = key.substring(from.prefix().length());
                            copy(from, key, to, to.prefix() + below);
                        });
                page.clear();
            }
        }
        // A file that came or was replaced meanwhile was perhaps not copied.
        List<String> changed = new ArrayList<>();
        Removal.deleteAll(
                from,
                RemoteIterators.filteringRemoteIterator(
                        Entries.below(from),
                        entry -> {
                            boolean isCopied = tag(entry).equals(copied.get(entry.key()));
                            if (!isCopied) {
                                changed.add(entry.key());
                            }
                            return isCopied;
                        }));
        if (!changed.isEmpty()) {
            throw new PathIOException(
                    from.path().toString(),
                    changed.size()
                            + " files were written while the directory was renamed, and stay, such"
                            + " as "
                            + changed.get(0));
        }
    }

    private static String tag(Entry entry) {
        return entry.object().map(ObjectStatus::tag).orElse("");
    }

    /** Returns when the store has confirmed the copy. */
    private static void copy(ObjectPath from, String key, ObjectPath to, String toKey)
            throws IOException {
        try {
            from.store().copy(key, to.store(), toKey, Options.none());
        } catch (IOException e) {
            throw Failures.of(from.path(), e);
        }
    }
}
