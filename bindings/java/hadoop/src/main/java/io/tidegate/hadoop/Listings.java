package io.tidegate.hadoop;

import io.tidegate.Entry;
import io.tidegate.ObjectInfo;

import org.apache.hadoop.fs.ContentSummary;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

import java.io.IOException;
import java.util.NoSuchElementException;
import java.util.Optional;

/** Listings of directories, a page at a time, and in one pass where they are recursive. */
final class Listings {
    private static final Logger LOG = LoggerFactory.getLogger(Listings.class);

    private final Tree tree;

    Listings(Tree tree) {
        this.tree = tree;
    }

    /**
     * The files and directories in a directory; of a file, the file.
     *
     * @throws java.io.FileNotFoundException if there is neither
     */
    RemoteIterator<ObjectStatus> in(ObjectPath at) throws IOException {
        return of(at, Entries.in(at));
    }

    /**
     * All files below a directory, in the order of keys, without directories; of a file, the file.
     *
     * @throws java.io.FileNotFoundException if there is neither
     */
    RemoteIterator<ObjectStatus> filesBelow(ObjectPath at) throws IOException {
        return of(at, Entries.below(at));
    }

    private RemoteIterator<ObjectStatus> of(ObjectPath at, Entries entries) throws IOException {
        if (entries.hasNext() || at.isRoot()) {
            return new Statuses(at, entries);
        }
        ObjectInfo file = tree.file(at).orElseThrow(() -> Failures.missing(at.path()));
        return new Single(ObjectStatus.file(at.path(), file, tree.facts()));
    }

    /**
     * Counts what is below a directory in one listing; directories without a marker count too.
     *
     * @throws java.io.FileNotFoundException if there is no directory and no file
     */
    ContentSummary summary(ObjectPath at) throws IOException {
        Entries entries = Entries.below(at);
        if (!entries.hasNext() && !at.isRoot()) {
            ObjectInfo file = tree.file(at).orElseThrow(() -> Failures.missing(at.path()));
            return summary(file.size().getAsLong(), 1, 0);
        }
        long bytes = 0;
        long files = 0;
        long directories = 1;
        String before = at.prefix();
        while (entries.hasNext()) {
            Entry entry = entries.next();
            String key = entry.key();
            if (ObjectPath.pathOf(at.bucket(), key.replaceFirst("/$", "")).isEmpty()) {
                warnOfKey(at, key);
                continue;
            }
            // Keys below one directory follow each other: new are those that the key before had
            // not.
            for (int end = commonPrefix(before, key); (end = key.indexOf('/', end)) >= 0; end++) {
                directories++;
            }
            before = key;
            if (!key.endsWith("/")) {
                files++;
                bytes += tree.listed(at, entry.object().orElseThrow()).getLen();
            }
        }
        return summary(bytes, files, directories);
    }

    private static ContentSummary summary(long bytes, long files, long directories) {
        return new ContentSummary.Builder()
                .length(bytes)
                .fileCount(files)
                .directoryCount(directories)
                .spaceConsumed(bytes)
                .build();
    }

    /** The length of what two keys begin with, up to a {@code /}. */
    private static int commonPrefix(String one, String other) {
        int end = 0;
        for (int at = 0; at < Math.min(one.length(), other.length()); at++) {
            if (one.charAt(at) != other.charAt(at)) {
                break;
            }
            end = one.charAt(at) == '/' ? at + 1 : end;
        }
        return end;
    }

    private static void warnOfKey(ObjectPath in, String key) {
        LOG.warn("{}: left out the key {}, which no path of Hadoop can name", in.path(), key);
    }

    /** The statuses of the entries that are no marker. */
    private final class Statuses implements RemoteIterator<ObjectStatus> {
        private final ObjectPath at;
        private final Entries entries;
        private ObjectStatus next;

        Statuses(ObjectPath at, Entries entries) {
            this.at = at;
            this.entries = entries;
        }

        @Override
        public boolean hasNext() throws IOException {
            while (next == null && entries.hasNext()) {
                next = status(entries.next());
            }
            return next != null;
        }

        @Override
        public ObjectStatus next() throws IOException {
            if (!hasNext()) {
                throw new NoSuchElementException("the listing of " + at.path() + " has ended");
            }
            ObjectStatus given = next;
            next = null;
            return given;
        }

        /** Null for an entry that is left out. */
        private ObjectStatus status(Entry entry) throws IOException {
            String key = entry.key();
            boolean isPrefix = entry.type() == Entry.Type.PREFIX;
            if (!isPrefix && key.endsWith("/")) {
                return null;
            }
            String name = isPrefix ? key.substring(0, key.length() - 1) : key;
            Optional<Path> path = ObjectPath.pathOf(at.bucket(), name);
            if (path.isEmpty()) {
                warnOfKey(at, key);
                return null;
            }
            return isPrefix
                    ? ObjectStatus.directory(path.get(), null, tree.facts())
                    : tree.listed(new ObjectPath(at.bucket(), key), entry.object().orElseThrow());
        }
    }

    /** A listing of one file. */
    private static final class Single implements RemoteIterator<ObjectStatus> {
        private ObjectStatus file;

        Single(ObjectStatus file) {
            this.file = file;
        }

        @Override
        public boolean hasNext() {
            return file != null;
        }

        @Override
        public ObjectStatus next() {
            if (file == null) {
                throw new NoSuchElementException("the listing has ended");
            }
            ObjectStatus given = file;
            file = null;
            return given;
        }
    }
}
