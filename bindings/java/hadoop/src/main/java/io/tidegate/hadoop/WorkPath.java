package io.tidegate.hadoop;

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
    private static final Pattern PLACE =
            Pattern.compile("(?:(.+?)/)?" + WORK + "([^/]+)/files/([^/]+)/([^/]+)(?:/(.+))?");

    Path path() {
        return new Path(out, WORK + job + "/files/" + task + "/" + attempt);
    }

    /** The pointer of the set of files that the commit of a job publishes, below {@link #out}. */
    static String pointer(String job) {
        return WORK + job + "/commit.json";
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
        if (!at.key().contains(WORK)) {
            return Optional.empty();
        }
        Matcher parts = PLACE.matcher(at.key());
        if (!parts.matches()) {
            return Optional.empty();
        }
        ObjectPath out = new ObjectPath(at.bucket(), parts.group(1) == null ? "" : parts.group(1));
        WorkPath in = new WorkPath(out.path(), parts.group(2), parts.group(3), parts.group(4));
        return Optional.of(new Place(in, at.path(), parts.group(5) == null ? "" : parts.group(5)));
    }
}
