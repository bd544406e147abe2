package io.tidegate.hadoop;

import io.tidegate.FoundJob;
import io.tidegate.Job;
import io.tidegate.JobAbort;
import io.tidegate.JobOutcome;

import org.apache.hadoop.fs.PathIOException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

import java.io.IOException;
import java.util.Optional;

/**
 * The jobs of a directory that is to be deleted or renamed. Their uploads are named by the objects
 * of their work paths alone, so without these nobody would end them.
 */
final class UnfinishedJobs {
    private static final Logger LOG = LoggerFactory.getLogger(UnfinishedJobs.class);
    private static final String IN_A_DIRECTORY = "/" + WorkPath.WORK;

    private UnfinishedJobs() {}

    /** The output directory of the job whose work path has this object, if one has. */
    static Optional<ObjectPath> outOf(ObjectPath directory, String key) {
        int end = key.indexOf(IN_A_DIRECTORY);
        boolean isWork = end >= 0 && key.indexOf('/', end + 1) > 0;
        return isWork
                ? Optional.of(new ObjectPath(directory.bucket(), key.substring(0, end)))
                : Optional.empty();
    }

    /**
     * Gives up the jobs that write to a directory.
     *
     * @throws PathIOException if a job has begun to publish: it has to be completed first
     */
    static void giveUp(ObjectPath out) throws IOException {
        try {
            for (FoundJob job : Job.abandonUnfinished(out.store().within(out.key()))) {
                if (job.outcome() instanceof JobOutcome.Ended ended
                        && ended.abort() instanceof JobAbort.Begun) {
                    throw new PathIOException(
                            out.path().toString(),
                            "the commit of job "
                                    + job.id()
                                    + " has begun, so the directory stays: `tidegate commit --job "
                                    + out.store().within(out.key()).location()
                                    + "` completes the job");
                }
                LOG.warn(
                        "{}: the directory is deleted, and its job {} is given up: {}",
                        out.path(),
                        job.id(),
                        job.outcome());
            }
        } catch (IOException e) {
            throw Failures.of(out.path(), e);
        }
    }

    /** Fails if a job writes to a directory that is to be renamed. */
    static void refuse(ObjectPath directory, String key) throws PathIOException {
        Optional<ObjectPath> out = outOf(directory, key);
        if (out.isPresent()) {
            throw new PathIOException(
                    directory.path().toString(),
                    "a job writes to " + out.get().path() + ", which cannot be renamed before");
        }
    }
}
