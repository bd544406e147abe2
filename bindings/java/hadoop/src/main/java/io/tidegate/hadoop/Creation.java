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
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** Opens files for writing. */
final class Creation {
    private static final Logger LOG = LoggerFactory.getLogger(Creation.class);

    /** How the directory begins in which Spark has the files of partitions that are elsewhere. */
    private static final String SPARK_STAGING = ".spark-staging-";

    /** Why nothing else is written to the work path of a job. */
    static final String ONLY_ATTEMPTS =
            "only its task attempts write here, below files/TASK/ATTEMPT/";

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
     * @throws PathIOException if the path does not have the file that is to be replaced; and if the
     *     file would be visible in the output directory of a task attempt of this process, as no
     *     part of the job; or if the path is in the work path of a job, which the end of the job
     *     deletes
     */
    TidegateOutputStream.Target open(
            ObjectPath at, WriteCondition condition, Map<String, String> attributes)
            throws IOException {
        checkPlace(at);
        if (tree.directory(at).isPresent()) {
            throw new FileAlreadyExistsException(at.path() + " is a directory");
        }
        Options options = conditional(at, condition, options(at, attributes));
        try {
            return new Published(at.store().writer(at.key(), options));
        } catch (IOException e) {
            throw Failures.of(at.path(), e);
        }
    }

    /**
     * Refuses a file that would be lost, or visible too early.
     *
     * @throws PathIOException if the path is in the work path of a job, or the file would be
     *     visible as no part of the job of a task attempt of this process
     */
    static void checkPlace(ObjectPath at) throws PathIOException {
        UnfinishedJobs.refuseInside(at, ONLY_ATTEMPTS);
        Optional<WorkPath> attempt = TaskAttempts.beside(at);
        if (attempt.isPresent()) {
            checkHidden(at, attempt.get());
        }
    }

    /**
     * Refuses a file that a task writes past the committer: readers would see it at once, also of a
     * task that is run again or a job that fails. Readers of tables pass over names that begin with
     * {@code .} or {@code _}.
     */
    private static void checkHidden(ObjectPath at, WorkPath attempt) throws PathIOException {
        List<String> names = attempt.names(at);
        if (names.stream().noneMatch(name -> name.startsWith(".") || name.startsWith("_"))) {
            throw new PathIOException(
                    at.path().toString(),
                    "the task attempt of "
                            + attempt.path()
                            + " is under way, and this file is not in its work path: it would be"
                            + " visible when it is closed, and no part of the job. Spark writes so"
                            + " unless the setting spark.sql.sources.commitProtocolClass is"
                            + " org.apache.spark.internal.io.cloud.PathOutputCommitProtocol");
        }
        if (names.get(0).startsWith(SPARK_STAGING)) {
            LOG.warn(
                    "{} is no part of the job: Spark writes it for a partition that has a location"
                        + " of its own, and renames it when the job is committed. TidegateCommitter"
                        + " does not cover such tables",
                    at.path());
        } else {
            LOG.warn(
                    "{} is written while the task attempt of {} is under way, and not in its work"
                            + " path: the file is there when it is closed, and no part of the job",
                    at.path(),
                    attempt.path());
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

        @Override
        public boolean isFinished() {
            return writer.isFinished();
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
