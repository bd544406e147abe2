package io.tidegate.hadoop;

import io.tidegate.Entry;
import io.tidegate.ObjectInfo;

import org.apache.hadoop.fs.ContentSummary;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.util.functional.RemoteIterators;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

import java.io.IOException;

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
            return RemoteIterators.mappingRemoteIterator(
                    RemoteIterators.filteringRemoteIterator(entries, entry -> isListed(at, entry)),
                    entry -> status(at, entry));
        }
        ObjectInfo file = tree.file(at).orElseThrow(() -> Failures.missing(at.path()));
        return RemoteIterators.remoteIteratorFromSingleton(
                ObjectStatus.file(at.path(), file, tree.facts()));
    }

    /** Whether an entry is a file or a directory of its own, which a marker is not. */
    private static boolean isListed(ObjectPath in, Entry entry) {
        boolean isMarker = entry.type() == Entry.Type.OBJECT && entry.key().endsWith("/");
        return !isMarker && hasPath(in, entry);
    }

    private static boolean hasPath(ObjectPath in, Entry entry) {
        if (ObjectPath.hasPath(name(entry))) {
            return true;
        }
        LOG.warn("{}: left out {}, which no path of Hadoop can name", in.path(), entry.key());
        return false;
    }

    /** The key, without the {@code /} that a prefix and a marker end with. */
    private static String name(Entry entry) {
        String key = entry.key();
        return key.endsWith("/") ? key.substring(0, key.length() - 1) : key;
    }

    private ObjectStatus status(ObjectPath in, Entry entry) throws IOException {
        ObjectPath at = new ObjectPath(in.bucket(), name(entry));
        return entry.object().isPresent()
                ? ObjectStatus.file(at.path(), sized(in, entry.object().get()), tree.facts())
                : ObjectStatus.directory(at.path(), null, tree.facts());
    }

    /** An object of a listing, with its size. If the listing gave no size, one HEAD asks for it. */
    private static ObjectInfo sized(ObjectPath in, ObjectInfo object) throws IOException {
        if (object.size().isPresent()) {
            return object;
        }
        try {
            return in.store().stat(object.key());
        } catch (IOException e) {
            throw Failures.of(new ObjectPath(in.bucket(), object.key()).path(), e);
        }
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
            if (!hasPath(at, entry)) {
                continue;
            }
            // Keys below one directory follow each other, so all others of this key are new.
            for (int end = commonPrefix(before, key); (end = key.indexOf('/', end)) >= 0; end++) {
                directories++;
            }
            before = key;
            if (!key.endsWith("/")) {
                files++;
                bytes += sized(at, entry.object().orElseThrow()).size().getAsLong();
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
}
