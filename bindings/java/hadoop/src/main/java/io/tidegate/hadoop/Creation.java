package io.tidegate.hadoop;

import io.tidegate.ObjectInfo;
import io.tidegate.Options;
import io.tidegate.Writer;

import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.PathIOException;

import java.io.IOException;

/** Opens files for writing. */
final class Creation {
    private final Tree tree;

    Creation(Tree tree) {
        this.tree = tree;
    }

    /**
     * Opens a file, which is published when it is closed. One listing shows that the path is no
     * directory; a condition takes one more request. No request looks for files above the path.
     *
     * @param attributes the options of this write alone
     * @throws FileAlreadyExistsException if there is a directory, or the path must have nothing and
     *     has a file
     * @throws PathIOException if the path does not have the file that is to be replaced
     */
    Writer open(ObjectPath at, WriteCondition condition, Options attributes) throws IOException {
        if (tree.directory(at).isPresent()) {
            throw new FileAlreadyExistsException(at.path() + " is a directory");
        }
        Options options = conditional(at, condition, attributes);
        try {
            return at.store().writer(at.key(), options);
        } catch (IOException e) {
            throw Failures.of(at.path(), e);
        }
    }

    private Options conditional(ObjectPath at, WriteCondition condition, Options attributes)
            throws IOException {
        if (condition instanceof WriteCondition.Absent) {
            if (tree.file(at).isPresent()) {
                throw new FileAlreadyExistsException(at.path() + " exists");
            }
            return attributes.and("create_only", "true");
        }
        if (condition instanceof WriteCondition.Tagged tagged) {
            ObjectInfo object =
                    tree.file(at)
                            .filter(found -> ObjectStatus.tag(found).equals(tagged.etag()))
                            .orElseThrow(() -> changed(at, tagged));
            return attributes.and("replaces", object);
        }
        return attributes;
    }

    private static PathIOException changed(ObjectPath at, WriteCondition.Tagged tagged) {
        return new PathIOException(
                at.path().toString(), "there is no file with the tag " + tagged.etag());
    }
}
