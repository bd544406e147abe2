package io.tidegate.hadoop;

import io.tidegate.Options;

import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * Renames files and directories: copies of all objects by the store, and then deletes of those that
 * were copied. Readers see both for a while. If a copy fails, the source is whole; if a delete
 * fails, the target is. Rules are those of HDFS.
 */
final class Renaming {
    private static final Logger LOG = LoggerFactory.getLogger(Renaming.class);

    private final Tree tree;
    private final Workers workers;
    private final Removal removal;

    Renaming(Tree tree, Workers workers, Removal removal) {
        this.tree = tree;
        this.workers = workers;
        this.removal = removal;
    }

    /**
     * Renames, unless the rules forbid it.
     *
     * @return false if nothing was done; the log says why
     * @throws IOException if a request failed: the source may be partly deleted, but only where its
     *     copy is whole
     */
    boolean rename(ObjectPath from, ObjectPath to) throws IOException {
        Optional<ObjectStatus> source = from.isRoot() ? Optional.empty() : tree.find(from);
        if (source.isEmpty()) {
            return refused(from, to, from.isRoot() ? "a bucket can't be renamed" : "no such file");
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
        // The bucket is a directory, with or without objects.
        if (found.isEmpty() && tree.directory(to.parent()).isEmpty()) {
            return refused(from, to, "the parent of the target is no directory");
        }
        if (isFile) {
            copy(from, from.key(), target, target.key());
            removal.delete(from, List.of(from.key()));
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

    /** Holds the keys of the tree in memory, to delete nothing that was not copied. */
    private void moveTree(ObjectPath from, ObjectPath to) throws IOException {
        List<String> copied = new ArrayList<>();
        List<String> page = new ArrayList<>();
        Entries entries = Entries.below(from);
        while (entries.hasNext()) {
            page.add(entries.next().key());
            if (page.size() == Removal.PAGE || !entries.hasNext()) {
                workers.each(
                        page,
                        key -> {
                            String below = key.substring(from.prefix().length());
                            copy(from, key, to, to.prefix() + below);
                        });
                copied.addAll(page);
                page.clear();
            }
        }
        for (int start = 0; start < copied.size(); start += Removal.PAGE) {
            int end = Math.min(start + Removal.PAGE, copied.size());
            removal.delete(from, copied.subList(start, end));
        }
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
