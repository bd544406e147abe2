package io.tidegate;

import java.util.List;

/** What {@link Job#abort} has done. */
public sealed interface JobAbort {
    /**
     * The keys of records that could not be read, and are removed. If there are uploads of theirs,
     * sweeps end them.
     */
    List<String> unreadable();

    /**
     * Nothing of the job is published any more, and its work path is gone.
     *
     * @param uploads how many uploads are abandoned
     * @param visible how many files had been published before, and stay: of a set that {@link
     *     Store#abandonSet} has ended
     * @param unreadable as of {@link JobAbort#unreadable}
     */
    record Abandoned(long uploads, long visible, List<String> unreadable) implements JobAbort {
        /** Keeps a copy of the list. */
        public Abandoned {
            unreadable = List.copyOf(unreadable);
        }
    }

    /**
     * The job's commit was begun, or completed meanwhile: nothing is abandoned. {@link Job#commit}
     * or {@link Job#rollForward} brings the job to its end.
     */
    record Begun() implements JobAbort {
        @Override
        public List<String> unreadable() {
            return List.of();
        }
    }

    /**
     * The job was over, completed or given up: what a late attempt had left is removed.
     *
     * @param uploads how many uploads are abandoned
     */
    record Removed(long uploads) implements JobAbort {
        @Override
        public List<String> unreadable() {
            return List.of();
        }
    }
}
