package io.tidegate.hadoop;

import io.tidegate.DeleteReport;
import io.tidegate.Entry;
import io.tidegate.ObjectInfo;
import io.tidegate.TidegateException;

import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathIOException;
import org.apache.hadoop.fs.PathIsNotEmptyDirectoryException;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.util.functional.RemoteIterators;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.AbstractMap.SimpleImmutableEntry;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Function;

/** Deletes files and directories. */
final class Removal {
    private static final Logger LOG = LoggerFactory.getLogger(Removal.class);

    /** As many keys as most stores list in one request, and S3 deletes in one. */
    private static final int PAGE = 1000;

    private final Tree tree;

    Removal(Tree tree) {
        this.tree = tree;
    }

    /**
     * Deletes a file or a directory. The directory above stays. Jobs that write below the directory
     * are given up.
     *
     * @return false if there was nothing, and for a bucket that is not empty, of which nothing is
     *     deleted
     * @throws PathIsNotEmptyDirectoryException for a directory that is not empty, unless {@code
     *     isRecursive}
     * @throws PathIOException if a job of the directory has begun to publish; nothing is deleted.
     *     If the job is of a directory below, what the listing has before its work path may be
     *     deleted. Also for a part of a work path
     */
    boolean delete(ObjectPath at, boolean isRecursive) throws IOException {
        if (at.isRoot()) {
            return deleteRoot(at, isRecursive);
        }
        checkNoPart(at);
        Optional<WorkPath.OfJob> job = WorkPath.ofJob(at);
        if (tree.file(at).isPresent()) {
            deleteObject(at, at.key());
        } else {
            Entries entries = Entries.below(at);
            if (!entries.hasNext()) {
                return false;
            }
            if (isRecursive) {
                if (job.isPresent()) {
                    UnfinishedJobs.giveUp(job.get());
                } else {
                    UnfinishedJobs.giveUp(at);
                }
                deleteTree(at, entries, job.isPresent() ? job.get().out() : at);
            } else {
                deleteMarker(at, entries);
            }
        }
        tree.keep(at.parent());
        return true;
    }

    /** Fails for a part of a work path: its job would lose records of its uploads. */
    private static void checkNoPart(ObjectPath at) throws PathIOException {
        if (WorkPath.ofJob(at).filter(job -> !job.isWhole()).isPresent()) {
            UnfinishedJobs.refuseInside(
                    at, "a delete of the whole work path gives the job up, and it alone");
        }
    }

    /**
     * A path deletes no bucket, and what is in one only by its name: {@code rm -r /} is rarely
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

    private static void deleteMarker(ObjectPath at, Entries entries) throws IOException {
        Entry first = entries.next();
        if (!first.key().equals(at.prefix()) || entries.hasNext()) {
            throw new PathIsNotEmptyDirectoryException(at.path().toString());
        }
        deleteObject(at, first.key());
    }

    /** Deletes an object. A key that has none is no failure. */
    static void deleteObject(ObjectPath in, String key) throws IOException {
        try {
            in.store().delete(key);
        } catch (IOException e) {
            throw Failures.of(in.path(), e);
        }
    }

    /**
     * Deletes what is below a directory. The jobs of each directory of it are given up before any
     * of their records is deleted.
     *
     * @param done the jobs of this directory are given up
     */
    private static void deleteTree(ObjectPath at, Entries entries, ObjectPath done)
            throws IOException {
        Set<ObjectPath> outs = new HashSet<>();
        outs.add(done);
        deleteAll(
                at,
                RemoteIterators.mappingRemoteIterator(
                        entries,
                        entry -> {
                            Optional<WorkPath.OfJob> job = WorkPath.ofJob(at.bucket(), entry.key());
                            if (job.isPresent() && outs.add(job.get().out())) {
                                UnfinishedJobs.giveUp(job.get().out());
                            }
                            return entry;
                        }));
    }

    /**
     * Deletes the objects of a listing.
     *
     * @throws IOException the first failure, after all others were tried; the others are suppressed
     *     in it
     */
    private static void deleteAll(ObjectPath in, RemoteIterator<Entry> entries) throws IOException {
        Iterator<String> keys =
                new Iterator<>() {
                    @Override
                    public boolean hasNext() {
                        try {
                            return entries.hasNext();
                        } catch (IOException e) {
                            throw new UncheckedIOException(e);
                        }
                    }

                    @Override
                    public String next() {
                        try {
                            return entries.next().key();
                        } catch (IOException e) {
                            throw new UncheckedIOException(e);
                        }
                    }
                };
        try {
            in.store().deleteAll(() -> keys).orThrow();
        } catch (UncheckedIOException e) {
            throw e.getCause();
        } catch (IOException e) {
            throw Failures.of(in.path(), e);
        }
    }

    /**
     * Deletes a file, unless it was replaced.
     *
     * @return false if the file was replaced, or if the store gives neither tags nor versions; the
     *     file then stays
     */
    static boolean deleteIfSame(ObjectPath at, Identity same) throws IOException {
        try {
            Optional<ObjectInfo> found = at.store().find(at.key());
            if (found.isPresent() && !Identity.of(found.get()).isSame(same)) {
                return false;
            }
            at.store().delete(at.key());
            return true;
        } catch (IOException e) {
            throw Failures.of(at.path(), e);
        }
    }

    /**
     * Deletes what is below a directory, and of that only the objects that are known. A store
     * deletes by the key alone, so each page is deleted before the next one is listed.
     *
     * @param known the object that may be deleted, by its key below the directory
     * @return the keys of the others, which stay
     * @throws IOException the first failure, after all others were tried; the others are suppressed
     *     in it
     */
    static List<String> deleteKnown(
            ObjectPath directory, Function<String, Optional<Identity>> known) throws IOException {
        List<String> others = new ArrayList<>();
        List<String> page = new ArrayList<>();
        IOException failure = null;
        Entries entries = Entries.below(directory);
        while (entries.hasNext()) {
            page.clear();
            for (int count = 0; count < PAGE && entries.hasNext(); count++) {
                Entry entry = entries.next();
                Identity found = Identity.of(entry.object().orElseThrow());
                String below = entry.key().substring(directory.prefix().length());
                boolean isKnown = known.apply(below).filter(found::isSame).isPresent();
                (isKnown ? page : others).add(entry.key());
            }
            try {
                directory.store().deleteAll(page).orThrow();
            } catch (IOException e) {
                if (failure == null) {
                    failure = e;
                } else {
                    failure.addSuppressed(e);
                }
            }
        }
        if (failure != null) {
            throw Failures.of(directory.path(), failure);
        }
        return others;
    }

    /**
     * Deletes each of some files, and looks for none of them. Parts of work paths stay.
     *
     * @param in the bucket that all files are in
     * @return the paths that were not deleted, with the reasons
     */
    static List<Map.Entry<Path, String>> deleteEach(ObjectPath in, Map<Path, ObjectPath> files)
            throws IOException {
        List<Map.Entry<Path, String>> failed = new ArrayList<>();
        Set<String> keys = new LinkedHashSet<>();
        files.forEach(
                (path, file) -> {
                    try {
                        checkNoPart(file);
                        keys.add(file.key());
                    } catch (PathIOException e) {
                        failed.add(new SimpleImmutableEntry<>(path, e.toString()));
                    }
                });
        DeleteReport report;
        try {
            report = in.store().deleteAll(keys);
        } catch (IOException e) {
            throw Failures.of(in.path(), e);
        }
        files.forEach(
                (path, file) -> {
                    TidegateException why = report.failed().get(file.key());
                    if (why != null) {
                        failed.add(
                                new SimpleImmutableEntry<>(
                                        path, Failures.of(path, why).toString()));
                    }
                });
        return failed;
    }
}
