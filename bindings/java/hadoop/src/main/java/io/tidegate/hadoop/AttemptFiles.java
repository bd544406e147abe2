package io.tidegate.hadoop;

import io.tidegate.Options;
import io.tidegate.TaskWriter;

import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathIOException;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.util.functional.RemoteIterators;

import java.io.IOException;
import java.io.OutputStream;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Optional;

/**
 * What a file system has below the work paths of task attempts: the files that this process has
 * closed there. They can be created, listed, and asked for their lengths, and nothing else before
 * the job is committed.
 */
final class AttemptFiles {
    private final ObjectStatus.Facts facts;

    AttemptFiles(ObjectStatus.Facts facts) {
        this.facts = facts;
    }

    /**
     * Opens a file of an attempt on its final key. What is at that key does not matter: the commit
     * of the job replaces it.
     *
     * @param condition is about the work path, where there are no files with tags
     * @throws FileAlreadyExistsException if the attempt has closed a file of this name
     * @throws PathIOException if no committer of this process has set the attempt up, or the path
     *     is the work path itself
     */
    TidegateOutputStream.Target create(
            WorkPath.Place place, WriteCondition condition, Options options) throws IOException {
        if (place.key().isEmpty()) {
            throw new FileAlreadyExistsException(place.at() + " is a directory");
        }
        if (condition instanceof WriteCondition.Tagged tagged) {
            throw new PathIOException(
                    place.at().toString(), "there is no file with the tag " + tagged.etag());
        }
        TaskAttempts.Attempt attempt =
                TaskAttempts.find(place.in())
                        .orElseThrow(
                                () -> failure(place, "no committer has set this attempt up here"));
        if (attempt.closed().containsKey(place.key())) {
            throw new FileAlreadyExistsException(
                    place.at() + " exists: an attempt writes each of its files once");
        }
        try {
            return new AttemptFile(
                    attempt, place.key(), attempt.attempt().writer(place.key(), options));
        } catch (IOException e) {
            throw Failures.of(place.at(), e);
        }
    }

    /** A file that is being written. */
    private static final class AttemptFile implements TidegateOutputStream.Target {
        private final TaskAttempts.Attempt attempt;
        private final String key;
        private final TaskWriter writer;

        AttemptFile(TaskAttempts.Attempt attempt, String key, TaskWriter writer) {
            this.attempt = attempt;
            this.key = key;
            this.writer = writer;
        }

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

        @Override
        public void closed() {
            if (isFinished()) {
                long now = System.currentTimeMillis();
                attempt.closed().put(key, new TaskAttempts.ClosedFile(writer.position(), now));
            }
        }
    }

    /** The files that were closed in the attempt of a place. None if this process has none. */
    private static NavigableMap<String, TaskAttempts.ClosedFile> closed(WorkPath.Place place) {
        return TaskAttempts.find(place.in())
                .map(TaskAttempts.Attempt::closed)
                .orElseGet(Collections::emptyNavigableMap);
    }

    /** The closed files below a place. A view: only what is looked at takes time. */
    private static NavigableMap<String, TaskAttempts.ClosedFile> closedBelow(WorkPath.Place place) {
        NavigableMap<String, TaskAttempts.ClosedFile> closed = closed(place);
        // What follows a slash follows all keys below.
        return place.key().isEmpty()
                ? closed
                : closed.subMap(place.prefix(), true, place.key() + (char) ('/' + 1), false);
    }

    private ObjectStatus status(WorkPath.Place place, TaskAttempts.ClosedFile file) {
        return ObjectStatus.unpublished(place.at(), file.length(), file.time(), facts);
    }

    /** The closed file at a place. */
    private Optional<ObjectStatus> file(WorkPath.Place place) {
        return Optional.ofNullable(closed(place).get(place.key())).map(file -> status(place, file));
    }

    private static boolean isDirectory(WorkPath.Place place) {
        return place.key().isEmpty() || !closedBelow(place).isEmpty();
    }

    /** The closed file or the directory at a place. The work path itself is always a directory. */
    Optional<ObjectStatus> find(WorkPath.Place place) {
        Optional<ObjectStatus> file = file(place);
        return file.isEmpty() && isDirectory(place)
                ? Optional.of(ObjectStatus.directory(place.at(), null, facts))
                : file;
    }

    /** The closed files and the directories in a directory; of a file, the file. */
    RemoteIterator<ObjectStatus> in(WorkPath.Place place) throws IOException {
        Map<String, ObjectStatus> entries = new LinkedHashMap<>();
        closedBelow(place)
                .forEach(
                        (key, file) -> {
                            int end = key.indexOf('/', place.prefix().length());
                            if (end < 0) {
                                entries.put(key, status(place.with(key), file));
                            } else {
                                String name = key.substring(0, end);
                                Path at = place.with(name).at();
                                entries.putIfAbsent(name, ObjectStatus.directory(at, null, facts));
                            }
                        });
        return listed(place, entries.values());
    }

    /** All closed files below a directory; of a file, the file. */
    RemoteIterator<ObjectStatus> below(WorkPath.Place place) throws IOException {
        List<ObjectStatus> files = new ArrayList<>();
        closedBelow(place).forEach((key, file) -> files.add(status(place.with(key), file)));
        return listed(place, files);
    }

    /** A file alone, else what is below a directory. */
    private RemoteIterator<ObjectStatus> listed(
            WorkPath.Place place, Collection<ObjectStatus> below) throws IOException {
        Optional<ObjectStatus> file = file(place);
        if (file.isPresent()) {
            return RemoteIterators.remoteIteratorFromSingleton(file.get());
        }
        if (below.isEmpty() && !place.key().isEmpty()) {
            throw Failures.missing(place.at());
        }
        return RemoteIterators.remoteIteratorFromIterable(below);
    }

    /**
     * Deletes nothing.
     *
     * @return false, if this process has closed no file at or below the place
     * @throws PathIOException otherwise
     */
    boolean delete(WorkPath.Place place) throws IOException {
        if (file(place).isEmpty() && closedBelow(place).isEmpty()) {
            return false;
        }
        throw failure(
                place, "abortTask of the committer gives up the files of an attempt together");
    }

    /** Why something is not possible with a place in a work path. */
    static PathIOException failure(WorkPath.Place place, String why) {
        return new PathIOException(
                place.at().toString(), "this is a file of a task attempt: " + why);
    }
}
