package io.tidegate.hadoop;

import io.tidegate.Entry;
import io.tidegate.Options;

import org.apache.hadoop.fs.RemoteIterator;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Iterator;
import java.util.NoSuchElementException;

/** A listing of a bucket. The store is asked for a page at a time, when its first entry is read. */
final class Entries implements RemoteIterator<Entry> {
    private final ObjectPath at;
    private final Iterator<Entry> entries;

    private Entries(ObjectPath at, boolean isRecursive) throws IOException {
        this.at = at;
        try {
            Options options = Options.of("recursive", Boolean.toString(isRecursive));
            entries = at.store().list(at.prefix(), options).iterator();
        } catch (IOException e) {
            throw Failures.of(at.path(), e);
        }
    }

    /** All objects below a directory, its marker among them. */
    static Entries below(ObjectPath directory) throws IOException {
        return new Entries(directory, true);
    }

    /** The objects and prefixes in a directory, its marker among them. */
    static Entries in(ObjectPath directory) throws IOException {
        return new Entries(directory, false);
    }

    @Override
    public boolean hasNext() throws IOException {
        try {
            return entries.hasNext();
        } catch (UncheckedIOException e) {
            throw Failures.of(at.path(), e.getCause());
        }
    }

    @Override
    public Entry next() throws IOException {
        if (!hasNext()) {
            throw new NoSuchElementException("the listing of " + at.path() + " has ended");
        }
        return entries.next();
    }
}
