package io.tidegate;

import java.time.Duration;
import java.util.Objects;

/**
 * How a job is set up: {@link Job#setUp(JobSettings)}. Settings never change: each method gives new
 * ones.
 */
public final class JobSettings {
    private static final JobSettings DEFAULTS = new JobSettings(null, true, false, false);

    /** Null for the lifetime that the library chooses. */
    private final Duration lifetime;

    private final boolean hasSuccessMarker;
    private final boolean rollsForward;
    private final boolean completesBegun;

    private JobSettings(
            Duration lifetime,
            boolean hasSuccessMarker,
            boolean rollsForward,
            boolean completesBegun) {
        this.lifetime = lifetime;
        this.hasSuccessMarker = hasSuccessMarker;
        this.rollsForward = rollsForward;
        this.completesBegun = completesBegun;
    }

    /**
     * Six days, with {@code _SUCCESS}, and earlier jobs are left alone. A job of this id was not
     * committed.
     */
    public static JobSettings defaults() {
        return DEFAULTS;
    }

    /**
     * How long after now the job can be committed. Sweeps leave its finished files alone until
     * then. Azure Blob Storage and files with a condition on Google Cloud Storage live for a week,
     * and a bucket may have a lifecycle rule that ends uploads earlier: {@link TaskAttempt#writer}
     * refuses a file that the store may end before.
     */
    public JobSettings withLifetime(Duration lifetime) {
        return new JobSettings(
                Objects.requireNonNull(lifetime), hasSuccessMarker, rollsForward, completesBegun);
    }

    /**
     * Whether {@code _SUCCESS} is written at the end. Without it, a commit that is repeated after
     * the end fails with {@link TidegateException.Kind#NOT_FOUND}.
     */
    public JobSettings withSuccessMarker(boolean isWritten) {
        return new JobSettings(lifetime, isWritten, rollsForward, completesBegun);
    }

    /**
     * Whether earlier jobs of the output directory whose commit was begun are brought to their end
     * first, as by {@link Job#rollForward}. An earlier job that fails to end does not keep this
     * one.
     */
    public JobSettings withRollForwardEarlier(boolean rollsForward) {
        return new JobSettings(lifetime, hasSuccessMarker, rollsForward, completesBegun);
    }

    /**
     * Whether a job of this id that was begun, or is complete, is brought to its end. {@link
     * Job#setUp} then returns the job among the others, as committed: it takes no more files, and
     * its commit can be repeated. For a driver that begins again after a crash, and does not know
     * how far the one before was.
     */
    public JobSettings withCompleteBegun(boolean isCompleted) {
        return new JobSettings(lifetime, hasSuccessMarker, rollsForward, isCompleted);
    }

    long lifetimeMillis() throws TidegateException {
        return lifetime == null ? Writer.NO_LIFETIME : Writer.millis(lifetime);
    }

    boolean hasSuccessMarker() {
        return hasSuccessMarker;
    }

    boolean rollsForward() {
        return rollsForward;
    }

    boolean completesBegun() {
        return completesBegun;
    }
}
