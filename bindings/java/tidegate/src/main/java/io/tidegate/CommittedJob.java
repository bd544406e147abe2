package io.tidegate;

import java.util.List;

/**
 * What a job has published: {@link Job#commit}.
 *
 * @param objects how many files are visible
 * @param bytes the bytes of these files
 * @param abandoned how many uploads of other attempts this call has abandoned
 * @param unreadable the keys of records that could not be read, and are removed; if there are
 *     uploads of theirs, sweeps end them
 */
public record CommittedJob(long objects, long bytes, long abandoned, List<String> unreadable) {
    /** Keeps a copy of the list. */
    public CommittedJob {
        unreadable = List.copyOf(unreadable);
    }
}
