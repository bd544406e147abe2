package io.tidegate.hadoop;

import io.tidegate.Job;

import org.apache.hadoop.fs.Path;

import java.util.List;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The directory that one attempt of a task writes to: {@code
 * OUT/__tidegate_JOB/files/TASK/ATTEMPT}. The store has nothing there. A file {@code a/b} of the
 * directory is an upload on the key {@code OUT/a/b}, which the commit of the job publishes.
 *
 * @param out the output directory of the job
 */
record WorkPath(Path out, String job, String task, String attempt) {
    static final String WORK = "__tidegate_";

    /** With an id as {@link Job#of} takes it; other names are not the library's. */
    private static final Pattern JOB =
            Pattern.compile("(?:^|/)" + WORK + "(?!\\.+/)([\\w.-]{1,200})/");

    private static final Pattern ATTEMPT = Pattern.compile("files/([^/]+)/([^/]+)/");

    Path path() {
        return new Path(out, WORK + job + "/files/" + task + "/" + attempt);
    }

    /**
     * A place in the work path of a job, {@code OUT/__tidegate_JOB}: of an attempt, or a record.
     *
     * @param below the rest of the key; empty for the work path itself
     */
    record OfJob(ObjectPath out, String job, String below) {
        boolean isWhole() {
            return below.isEmpty();
        }
    }

    /** The job in whose work path a key is, if it is in one. The key of a directory ends with /. */
    static Optional<OfJob> ofJob(Bucket bucket, String key) {
        if (!key.contains(WORK)) {
            return Optional.empty();
        }
        Matcher job = JOB.matcher(key);
        if (!job.find()) {
            return Optional.empty();
        }
        ObjectPath out = new ObjectPath(bucket, key.substring(0, job.start()));
        return Optional.of(new OfJob(out, job.group(1), key.substring(job.end())));
    }

    /** The job in whose work path the place is, or whose work path it is. */
    static Optional<OfJob> ofJob(ObjectPath at) {
        return ofJob(at.bucket(), at.prefix());
    }

    /**
     * A place in a work path.
     *
     * @param at the path as it was given
     * @param key below the output directory; empty for the work path itself
     */
    record Place(WorkPath in, Path at, String key) {
        /** How the keys below this directory begin. */
        String prefix() {
            return key.isEmpty() ? "" : key + "/";
        }

        /** A place of the same work path. */
        Place with(String otherKey) {
            return new Place(in, new Path(in.path(), "./" + otherKey), otherKey);
        }
    }

    private String directory() {
        return out.isRoot() ? "/" : out.toUri().getPath() + "/";
    }

    /** Whether a path is below the output directory. */
    boolean isBeside(ObjectPath file) {
        Path path = file.path();
        return path.toUri().getPath().startsWith(directory())
                && path.toUri().getScheme().equals(out.toUri().getScheme())
                && path.toUri().getAuthority().equals(out.toUri().getAuthority());
    }

    /** The names of a file below the output directory. */
    List<String> names(ObjectPath file) {
        String below = file.path().toUri().getPath().substring(directory().length());
        return List.of(below.split("/", -1));
    }

    /** The place of the path in a work path, if it is in one. */
    static Optional<Place> place(ObjectPath at) {
        Optional<OfJob> of = ofJob(at);
        if (of.isEmpty()) {
            return Optional.empty();
        }
        String below = of.get().below();
        Matcher attempt = ATTEMPT.matcher(below);
        if (!attempt.lookingAt()) {
            return Optional.empty();
        }
        WorkPath in =
                new WorkPath(
                        of.get().out().path(), of.get().job(), attempt.group(1), attempt.group(2));
        // Without the slash that the place of a directory ends with.
        int end = Math.max(attempt.end(), below.length() - 1);
        return Optional.of(new Place(in, at.path(), below.substring(attempt.end(), end)));
    }
}
