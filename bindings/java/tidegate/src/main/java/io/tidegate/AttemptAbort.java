package io.tidegate;

/** What {@link Job#abortAttempt} has done. */
public sealed interface AttemptAbort {
    /**
     * Nobody commits the attempt any more.
     *
     * @param uploads how many uploads are abandoned
     */
    record Abandoned(long uploads) implements AttemptAbort {}

    /**
     * The attempt was committed. Unless a driver has read its manifest already, it does not count,
     * and the attempt of the task that was committed before it, if there is one, counts again. The
     * end of the job abandons what is not published.
     */
    record LeftToJob() implements AttemptAbort {}

    /**
     * The job's commit was begun: nothing is abandoned. The end of the job abandons what is not
     * published.
     */
    record JobBegun() implements AttemptAbort {}
}
