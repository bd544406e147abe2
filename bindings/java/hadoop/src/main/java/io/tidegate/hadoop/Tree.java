package io.tidegate.hadoop;

import io.tidegate.Entry;
import io.tidegate.ObjectInfo;
import io.tidegate.Options;

import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.ParentNotDirectoryException;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Optional;

/**
 * The directory tree that the keys of a bucket make. An object {@code a/b} is a file. There is a
 * directory {@code a} if a key begins with {@code a/}: a file below it, or its marker, an empty
 * object of the key {@code a/}.
 */
final class Tree {
    private final ObjectStatus.Facts facts;

    Tree(ObjectStatus.Facts facts) {
        this.facts = facts;
    }

    ObjectStatus.Facts facts() {
        return facts;
    }

    /** The file at a place. One request. */
    Optional<ObjectInfo> file(ObjectPath at) throws IOException {
        if (at.isRoot()) {
            return Optional.empty();
        }
        try {
            return at.store().find(at.key());
        } catch (IOException e) {
            throw Failures.of(at.path(), e);
        }
    }

    /** The directory at a place; the bucket itself is always one. One request. */
    Optional<ObjectStatus> directory(ObjectPath at) throws IOException {
        Entries entries = Entries.in(at);
        if (!entries.hasNext()) {
            return at.isRoot()
                    ? Optional.of(ObjectStatus.directory(at.path(), null, facts))
                    : Optional.empty();
        }
        Entry first = entries.next();
        ObjectInfo marker = first.key().equals(at.prefix()) ? first.object().orElse(null) : null;
        return Optional.of(ObjectStatus.directory(at.path(), marker, facts));
    }

    /** Whether there is a directory at a place. One request, and none for a bucket. */
    boolean isDirectory(ObjectPath at) throws IOException {
        return at.isRoot() || directory(at).isPresent();
    }

    /** The file or directory at a place. One request for a file, two for anything else. */
    Optional<ObjectStatus> find(ObjectPath at) throws IOException {
        Optional<ObjectInfo> file = file(at);
        return file.isPresent()
                ? file.map(object -> ObjectStatus.file(at.path(), object, facts))
                : directory(at);
    }

    /**
     * Makes a directory, and with it those above it. Only the lowest gets a marker.
     *
     * @throws FileAlreadyExistsException if there is a file
     * @throws ParentNotDirectoryException if there is a file above it
     */
    void make(ObjectPath directory) throws IOException {
        if (directory(directory).isPresent()) {
            return;
        }
        if (file(directory).isPresent()) {
            throw new FileAlreadyExistsException(directory.path() + " is a file");
        }
        ObjectPath above = directory.parent();
        while (!isDirectory(above)) {
            if (file(above).isPresent()) {
                throw new ParentNotDirectoryException(above.path() + " is a file");
            }
            above = above.parent();
        }
        mark(directory);
    }

    /** Has a directory stay when the last file has left it. A bucket stays by itself. */
    void keep(ObjectPath directory) throws IOException {
        if (!isDirectory(directory)) {
            mark(directory);
        }
    }

    private static void mark(ObjectPath directory) throws IOException {
        try {
            directory.store().put(directory.prefix(), ByteBuffer.allocate(0), Options.none());
        } catch (IOException e) {
            throw Failures.of(directory.path(), e);
        }
    }
}
