package io.tidegate.hadoop;

import io.tidegate.Store;

import org.apache.hadoop.fs.Path;

import java.io.IOException;
import java.util.regex.Pattern;

/**
 * A place in a bucket.
 *
 * @param key the key, which does not end with {@code /}; empty for the bucket itself
 */
record ObjectPath(Bucket bucket, String key) {
    /** The names that Hadoop leaves out of a path: empty ones, {@code .} and {@code ..}. */
    private static final Pattern LEFT_OUT = Pattern.compile("(^|/)\\.{0,2}(/|\\z)");

    /** Whether this is the bucket itself. */
    boolean isRoot() {
        return key.isEmpty();
    }

    Store store() {
        return bucket.store();
    }

    /** How the keys below this directory begin. Its marker has this key. */
    String prefix() {
        return isRoot() ? "" : key + "/";
    }

    /** This directory as a store of its own: keys are relative to it. */
    Store directory() throws IOException {
        return store().within(key);
    }

    /** The path of this place. */
    Path path() {
        return isRoot() ? bucket.root() : new Path(bucket.root(), "./" + key);
    }

    /** The directory that this is in; the bucket is in itself. */
    ObjectPath parent() {
        return new ObjectPath(bucket, key.substring(0, Math.max(key.lastIndexOf('/'), 0)));
    }

    /** The name of this in its directory. */
    String name() {
        return key.substring(key.lastIndexOf('/') + 1);
    }

    /** A place below this one. */
    ObjectPath child(String name) {
        return new ObjectPath(bucket, prefix() + name);
    }

    /** Whether the other place is below this one, or the same. */
    boolean contains(ObjectPath other) {
        return bucket.equals(other.bucket) && (isRoot() || (other.key + "/").startsWith(key + "/"));
    }

    /** Whether a path has this key. */
    static boolean hasPath(String key) {
        return !LEFT_OUT.matcher(key).find();
    }
}
