package io.tidegate;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * A job of an output directory, and what {@link Job#rollForward} or {@link Job#abandonUnfinished}
 * has done with it.
 */
public final class FoundJob {
    private final String id;

    /** Null if it failed. */
    private final JobOutcome outcome;

    /** Null if there is an outcome. */
    private final TidegateException failure;

    private FoundJob(Wire.Decoder from) throws TidegateException {
        id = from.text();
        boolean isDone = from.number() == 1;
        outcome = isDone ? JobReplies.outcome(from) : null;
        failure = isDone ? null : TidegateException.of(from);
    }

    static List<FoundJob> all(Call.Reply reply) throws TidegateException {
        Wire.Decoder from = new Wire.Decoder(reply.payload());
        List<FoundJob> found = new ArrayList<>();
        while (from.hasMore()) {
            found.add(new FoundJob(from));
        }
        return List.copyOf(found);
    }

    /** The id of the job. */
    public String id() {
        return id;
    }

    /**
     * What was done with the job.
     *
     * @throws TidegateException why it could not be: {@link #failure}
     */
    public JobOutcome outcome() throws TidegateException {
        if (failure != null) {
            throw failure.again();
        }
        return outcome;
    }

    /** Why nothing could be done with the job, or not all; empty if there is an outcome. */
    public Optional<TidegateException> failure() {
        return Optional.ofNullable(failure);
    }

    @Override
    public String toString() {
        return "FoundJob " + id + ": " + (failure == null ? outcome : failure.getMessage());
    }
}
