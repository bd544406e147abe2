package io.tidegate;

/** What was done with a job of an output directory: {@link FoundJob#outcome}. */
public sealed interface JobOutcome {
    /**
     * It is complete.
     *
     * @param job what it has published
     */
    record Committed(CommittedJob job) implements JobOutcome {}

    /** Its commit was not begun. It may be at work: it is left alone. */
    record NotBegun() implements JobOutcome {}

    /**
     * It is given up, or what was left of a job that is over is removed.
     *
     * @param abort what that has done
     */
    record Ended(JobAbort abort) implements JobOutcome {}
}
