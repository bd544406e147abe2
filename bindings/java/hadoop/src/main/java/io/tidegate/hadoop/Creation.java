package io.tidegate.hadoop;

import io.tidegate.ObjectInfo;
import io.tidegate.Options;
import io.tidegate.Writer;

import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.PathIOException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

import java.io.IOException;
import java.io.OutputStream;
import java.util.Map;

/** Opens files for writing. */
final class Creation {
    private static final Logger LOG = LoggerFactory.getLogger(Creation.class);

    private final Tree tree;

    Creation(Tree tree) {
        this.tree = tree;
    }

    /**
     * Opens a file, which is published when it is closed. One listing shows that the path is no
     * directory; a condition takes one more request. No request looks for files above the path.
     *
     * @param attributes options of this write, which count more than those of the settings
     * @throws FileAlreadyExistsException if there is a directory, or the path must have nothing and
     *     has a file
     * @throws PathIOException if the path does not have the file that is to be replaced
     */
    TidegateOutputStream.Target open(
            ObjectPath at, WriteCondition condition, Map<String, String> attributes)
            throws IOException {
        if (tree.directory(at).isPresent()) {
            throw new FileAlreadyExistsException(at.path() + " is a directory");
        }
        TaskAttempts.beside(at)
                .ifPresent(
                        attempt ->
                                LOG.warn(
                                        "{} is written while a task of a job is under way in the"
                                            + " directory, and not in its work path {}: the file is"
                                            + " visible when it is closed, and no part of the job",
                                        at.path(),
                                        attempt.path()));
        Options options = conditional(at, condition, options(at, attributes));
        try {
            return new Published(at.store().writer(at.key(), options));
        } catch (IOException e) {
            throw Failures.of(at.path(), e);
        }
    }

    /** The options of the settings, and then those of one write. */
    static Options options(ObjectPath at, Map<String, String> attributes) {
        Options options = at.bucket().write();
        for (Map.Entry<String, String> attribute : attributes.entrySet()) {
            options = options.and(attribute.getKey(), attribute.getValue());
        }
        return options;
    }

    /** A file that its close publishes. */
    private record Published(Writer writer) implements TidegateOutputStream.Target {
        @Override
        public OutputStream stream() {
            return writer.asOutputStream();
        }

        @Override
        public void abort() throws IOException {
            writer.abort();
        }
    }

    private Options conditional(ObjectPath at, WriteCondition condition, Options options)
            throws IOException {
        if (condition instanceof WriteCondition.Absent) {
            if (tree.file(at).isPresent()) {
                throw new FileAlreadyExistsException(at.path() + " exists");
            }
            return options.and("create_only", "true");
        }
        if (condition instanceof WriteCondition.Tagged tagged) {
            ObjectInfo object =
                    tree.file(at)
                            .filter(found -> ObjectStatus.tag(found).equals(tagged.etag()))
                            .orElseThrow(() -> changed(at, tagged));
            return options.and("replaces", object);
        }
        return options;
    }

    private static PathIOException changed(ObjectPath at, WriteCondition.Tagged tagged) {
        return new PathIOException(
                at.path().toString(), "there is no file with the tag " + tagged.etag());
    }
}
