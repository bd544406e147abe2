package io.tidegate.hadoop;

import io.tidegate.Entry;

import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathIOException;
import org.apache.hadoop.fs.PathIsNotEmptyDirectoryException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** Deletes files and directories. */
final class Removal {
    /** As many keys as most stores delete with one request. */
    static final int PAGE = 1000;

    private static final Logger LOG = LoggerFactory.getLogger(Removal.class);

    private final Tree tree;
    private final Workers workers;

    Removal(Tree tree, Workers workers) {
        this.tree = tree;
        this.workers = workers;
    }

    /**
     * Deletes a file or a directory. The directory above stays.
     *
     * @return false if there was nothing, and for the whole bucket, of which nothing is deleted
     *     unless it is empty
     * @throws PathIsNotEmptyDirectoryException for a directory that is not empty, unless {@code
     *     isRecursive}
     */
    boolean delete(ObjectPath at, boolean isRecursive) throws IOException {
        if (at.isRoot()) {
            return deleteRoot(at, isRecursive);
        }
        if (tree.file(at).isPresent()) {
            delete(at, List.of(at.key()));
        } else {
            Entries entries = Entries.below(at);
            if (!entries.hasNext()) {
                return false;
            }
            if (isRecursive) {
                deleteAll(at, entries);
            } else {
                deleteMarker(at, entries);
            }
        }
        tree.keep(at.parent());
        return true;
    }

    /**
     * A bucket can't be deleted by a path, and its content only by name: {@code rm -r /} is rarely
     * meant.
     */
    private static boolean deleteRoot(ObjectPath root, boolean isRecursive) throws IOException {
        if (!Entries.in(root).hasNext()) {
            return true;
        }
        if (!isRecursive) {
            throw new PathIOException(root.path().toString(), "the bucket is not empty");
        }
        LOG.warn("{}: the whole bucket was to be deleted, and nothing was", root.path());
        return false;
    }

    private void deleteAll(ObjectPath at, Entries entries) throws IOException {
        List<String> page = new ArrayList<>();
        while (entries.hasNext()) {
            page.add(entries.next().key());
            if (page.size() == PAGE) {
                delete(at, page);
                page.clear();
            }
        }
        delete(at, page);
    }

    private void deleteMarker(ObjectPath at, Entries entries) throws IOException {
        Entry first = entries.next();
        if (!first.key().equals(at.prefix()) || entries.hasNext()) {
            throw new PathIsNotEmptyDirectoryException(at.path().toString());
        }
        delete(at, List.of(first.key()));
    }

    /**
     * Deletes objects. A key that has none is no failure.
     *
     * @param in what a failure names
     */
    void delete(ObjectPath in, List<String> keys) throws IOException {
        try {
            workers.each(keys, in.store()::delete);
        } catch (IOException e) {
            throw Failures.of(in.path(), e);
        }
    }

    /**
     * Deletes each of some files, and looks for none of them.
     *
     * @return the paths that were not deleted, with the reasons
     * @throws IOException if the thread was interrupted
     */
    List<Map.Entry<Path, String>> deleteEach(ObjectPath in, Map<Path, ObjectPath> files)
            throws IOException {
        Map<Path, String> failed = new ConcurrentHashMap<>();
        workers.each(
                files.entrySet(),
                file -> {
                    try {
                        if (file.getValue().isRoot()) {
                            throw new PathIOException(in.path().toString(), "a bucket is no file");
                        }
                        file.getValue().store().delete(file.getValue().key());
                    } catch (InterruptedIOException e) {
                        throw e;
                    } catch (IOException e) {
                        failed.put(file.getKey(), Failures.of(file.getKey(), e).toString());
                    }
                });
        return List.copyOf(failed.entrySet());
    }
}
