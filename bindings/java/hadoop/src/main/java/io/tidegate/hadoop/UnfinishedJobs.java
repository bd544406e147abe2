package io.tidegate.hadoop;

import io.tidegate.FoundJob;
import io.tidegate.Job;
import io.tidegate.JobAbort;
import io.tidegate.TidegateException;

import org.apache.hadoop.fs.PathIOException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

import java.io.IOException;
import java.util.Optional;

/**
 * Only the records in a work path name the job's uploads. Before a delete of the directory destroys
 * the records, its jobs are given up; a rename is refused.
 */
final class UnfinishedJobs {
    private static final Logger LOG = LoggerFactory.getLogger(UnfinishedJobs.class);

    private UnfinishedJobs() {}

    /**
     * Gives up the jobs that write to a directory.
     *
     * @throws PathIOException if a job has begun to publish: it has to be completed first, and none
     *     is given up
     */
    static void giveUp(ObjectPath out) throws IOException {
        try {
            for (FoundJob job : Job.giveUpAll(out.directory())) {
                LOG.warn(
                        "{}: the directory is deleted, and its job {} is given up: {}",
                        out.path(),
                        job.id(),
                        job.outcome());
            }
        } catch (TidegateException e) {
            throw e.kind() == TidegateException.Kind.CLOSED
                    ? new PathIOException(out.path().toString(), e.getMessage(), e)
                    : Failures.of(out.path(), e);
        } catch (IOException e) {
            throw Failures.of(out.path(), e);
        }
    }

    /**
     * Gives up the job of a work path, and no other of the directory.
     *
     * @throws PathIOException if the job has begun to publish: it has to be completed first
     */
    static void giveUp(WorkPath.OfJob job) throws IOException {
        ObjectPath out = job.out();
        Optional<JobAbort> aborted;
        try {
            aborted = abort(Job.of(out.directory(), job.job()));
        } catch (IOException e) {
            throw Failures.of(out.path(), e);
        }
        if (aborted.isPresent() && aborted.get() instanceof JobAbort.Begun) {
            throw new PathIOException(
                    out.path().toString(),
                    "job "
                            + job.job()
                            + " has begun to publish: `tidegate commit --job "
                            + out.directory().location()
                            + "` completes it");
        }
        LOG.warn(
                "{}: the work path of job {} is deleted, and the job is given up: {}",
                out.path(),
                job.job(),
                aborted);
    }

    /** Gives a job up; empty if there is nothing of it. */
    static Optional<JobAbort> abort(Job job) throws IOException {
        try {
            return Optional.of(job.abort());
        } catch (TidegateException e) {
            if (e.kind() == TidegateException.Kind.NOT_FOUND) {
                return Optional.empty();
            }
            throw e;
        }
    }

    /** Fails if the job of a work path would lose what is done to a part of it, or be damaged. */
    static void refuseInside(ObjectPath at, String why) throws PathIOException {
        Optional<WorkPath.OfJob> job = WorkPath.ofJob(at);
        if (job.isPresent()) {
            throw new PathIOException(
                    at.path().toString(),
                    "this is in the work path of job " + job.get().job() + ": " + why);
        }
    }

    /** Fails if a key of a directory that is to be renamed is in a work path. */
    static void refuseRename(ObjectPath directory, String key) throws IOException {
        Optional<WorkPath.OfJob> job = WorkPath.ofJob(directory.bucket(), key);
        if (job.isPresent()) {
            String id = job.get().job();
            String location = job.get().out().directory().location();
            throw new PathIOException(
                    directory.path().toString(),
                    String.format(
                            "%s has the unfinished job %s: complete it with `tidegate commit --job"
                                + " %s`, or give it up with `tidegate abandon --job %s --id %s`,"
                                + " then rename",
                            job.get().out().path(), id, location, location, id));
        }
    }
}
