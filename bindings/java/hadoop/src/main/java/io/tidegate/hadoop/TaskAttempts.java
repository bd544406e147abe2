package io.tidegate.hadoop;

import io.tidegate.TaskAttempt;

import org.apache.hadoop.fs.Path;

import java.util.NavigableMap;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.ConcurrentSkipListMap;

/**
 * The attempts that committers of this process have set up and not ended yet. The file system that
 * writes the files of an attempt finds the attempt by its work path, because the committer may have
 * another file system object: Hadoop makes more than one of a URI.
 */
final class TaskAttempts {
    private static final ConcurrentMap<WorkPath, Attempt> ATTEMPTS = new ConcurrentHashMap<>();

    private TaskAttempts() {}

    /**
     * An attempt.
     *
     * @param attempt the attempt as the library has it
     * @param closed the closed files by their keys
     */
    record Attempt(TaskAttempt attempt, NavigableMap<String, ClosedFile> closed) {}

    /**
     * A file whose bytes are all at the store, and that nobody sees.
     *
     * @param time when it was closed, in milliseconds since 1970
     */
    record ClosedFile(long length, long time) {}

    /** Adds an attempt, in place of what an earlier setup of it has left. */
    static void add(WorkPath path, TaskAttempt attempt) {
        ATTEMPTS.put(path, new Attempt(attempt, new ConcurrentSkipListMap<>()));
    }

    static Optional<Attempt> find(WorkPath path) {
        return Optional.ofNullable(ATTEMPTS.get(path));
    }

    static void remove(WorkPath path) {
        ATTEMPTS.remove(path);
    }

    /**
     * An attempt whose output directory contains this file. Only for files outside all work paths.
     */
    static Optional<WorkPath> beside(ObjectPath file) {
        return ATTEMPTS.keySet().stream().filter(path -> path.isBeside(file)).findAny();
    }

    /** Removes all attempts of a job. */
    static void removeAll(Path out, String job) {
        ATTEMPTS.keySet().removeIf(path -> path.out().equals(out) && path.job().equals(job));
    }
}
