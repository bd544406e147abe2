package io.tidegate;

/** What the native library has done with jobs and attempts, as it tells that. */
final class JobReplies {
    private JobReplies() {}

    static AttemptAbort attemptAbort(Wire.Decoder from) throws TidegateException {
        return switch ((int) from.number()) {
            case 0 -> new AttemptAbort.Abandoned(from.number());
            case 1 -> new AttemptAbort.LeftToJob();
            case 2 -> new AttemptAbort.JobBegun();
            default -> throw unknown("an abort of an attempt");
        };
    }

    static CommittedJob committed(Wire.Decoder from) {
        return new CommittedJob(from.number(), from.number(), from.number(), from.texts());
    }

    static JobAbort abort(Wire.Decoder from) throws TidegateException {
        return switch ((int) from.number()) {
            case 0 -> new JobAbort.Abandoned(from.number(), from.number(), from.texts());
            case 1 -> new JobAbort.Begun();
            case 2 -> new JobAbort.Removed(from.number());
            default -> throw unknown("an abort of a job");
        };
    }

    static JobOutcome outcome(Wire.Decoder from) throws TidegateException {
        return switch ((int) from.number()) {
            case 0 -> new JobOutcome.Committed(committed(from));
            case 1 -> new JobOutcome.NotBegun();
            case 2 -> new JobOutcome.Ended(abort(from));
            default -> throw unknown("an outcome of a job");
        };
    }

    private static TidegateException unknown(String result) {
        String message = "the native library is of a later version, and tells of " + result;
        return new TidegateException(
                TidegateException.Kind.OTHER,
                message + " that these classes have no name for",
                null);
    }
}
