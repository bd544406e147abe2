package io.tidegate;

import static io.tidegate.Servers.bytes;
import static io.tidegate.Servers.fails;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.tidegate.TidegateException.Kind;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Optional;

class JobTest {
    /** Two parts. */
    private static final byte[] LARGE = bytes(7 << 20);

    private static final Options PARTS = Options.of("part_size", "5MiB");

    static Job newJob(Store out, String id) throws Exception {
        Job job = Job.of(out, id);
        assertEquals(List.of(), job.setUp());
        return job;
    }

    /** Writes files, each with its key as content, and commits the attempt. */
    private static TaskAttempt runTask(Job job, String task, String attempt, String... keys)
            throws Exception {
        TaskAttempt begun = job.attempt(task, attempt);
        for (String key : keys) {
            write(begun, key, key.getBytes(StandardCharsets.UTF_8));
        }
        begun.commit();
        return begun;
    }

    private static void write(TaskAttempt attempt, String key, byte[] bytes) throws Exception {
        try (TaskWriter writer = attempt.writer(key, PARTS)) {
            writer.write(bytes);
            assertEquals(bytes.length, writer.position());
            writer.finish();
        }
    }

    static List<String> keys(Store out) throws Exception {
        return out.list("").map(Entry::key).sorted().toList();
    }

    @ParameterizedTest
    @MethodSource("io.tidegate.Servers#withGoogle")
    void theFilesOfAJobBecomeVisibleWithItsCommit(Store store) throws Exception {
        Store out = store.within("out");
        Job job = newJob(out, "a");
        TaskAttempt first = job.attempt("t0", "first");
        TaskAttempt second = job.attempt("t0", "second");
        write(first, "x=1/0", new byte[3]);
        write(first, "only-the-first", new byte[3]);
        write(second, "x=1/0", LARGE);
        first.commit();
        second.commit();
        second.commit();
        TaskAttempt other = Job.of(out, "a").attempt("t1", "first");
        Options csv = Options.of("content_type", "text/csv").and("metadata", "rows=1");
        try (TaskWriter writer = other.writer("x=2/0.csv", csv)) {
            writer.write(new byte[] {'1', '\n'});
            writer.finish();
        }
        other.commit();
        assertTrue(keys(out).stream().allMatch(key -> key.startsWith("__tidegate_a/")));
        assertEquals(Optional.empty(), Job.lastCompleted(out));

        CommittedJob committed = job.commit();
        assertEquals(new CommittedJob(2, LARGE.length + 2, 2, List.of()), committed);
        assertEquals(List.of("_SUCCESS", "x=1/0", "x=2/0.csv"), keys(out));
        assertArrayEquals(LARGE, store.get("out/x=1/0"));
        ObjectInfo object = out.stat("x=2/0.csv");
        assertEquals(Optional.of("text/csv"), object.text("content_type"));
        assertEquals("1", object.metadata().get("rows"));
        assertEquals(Optional.of("a"), Job.lastCompleted(out));
        // Again, by another process.
        CommittedJob again = Job.of(store.within("out/"), "a").commit();
        assertEquals(new CommittedJob(2, LARGE.length + 2, 0, List.of()), again);
        fails(Kind.CLOSED, job::setUp);
        fails(Kind.CLOSED, () -> job.attempt("t0", "late"));
        assertEquals(List.of(), Job.rollForward(out));
    }

    @ParameterizedTest
    @MethodSource("io.tidegate.Servers#withGoogle")
    void anAbortedJobLeavesNothing(Store store) throws Exception {
        Job job = newJob(store, "a");
        runTask(job, "t0", "t0-0", "0", "1");
        TaskAttempt attempt = job.attempt("t1", "t1-0");
        write(attempt, "2", LARGE);
        TaskWriter open = attempt.writer("3");
        assertEquals(new JobAbort.Abandoned(4, 0, List.of()), Job.of(store, "a").abort());
        assertEquals(List.of(), keys(store));
        fails(Kind.NOT_FOUND, job::abort);
        fails(Kind.NOT_FOUND, job::commit);
        open.close();
        fails(Kind.CLOSED, attempt::commit);
    }

    @ParameterizedTest
    @MethodSource("io.tidegate.Servers#withGoogle")
    void anAttemptThatIsGivenUpDoesNotCount(Store store) throws Exception {
        Job job = newJob(store, "a");
        TaskAttempt attempt = job.attempt("t0", "t0-0");
        write(attempt, "0", LARGE);
        assertEquals(new AttemptAbort.Abandoned(1), attempt.abort());
        assertEquals(new AttemptAbort.Abandoned(0), attempt.abort());
        fails(Kind.CLOSED, attempt::commit);
        fails(Kind.CLOSED, () -> attempt.writer("1"));
        // By another process, which knows the names alone.
        TaskAttempt late = job.attempt("t0", "t0-1");
        write(late, "0", LARGE);
        assertEquals(new AttemptAbort.Abandoned(1), Job.of(store, "a").abortAttempt("t0", "t0-1"));
        fails(Kind.CLOSED, late::commit);
        runTask(job, "t0", "t0-2", "0");
        assertEquals(new AttemptAbort.LeftToJob(), job.abortAttempt("t0", "t0-2"));
        assertEquals(new CommittedJob(0, 0, 1, List.of()), job.commit());
        assertEquals(List.of("_SUCCESS"), keys(store));
    }

    @ParameterizedTest
    @MethodSource("io.tidegate.Servers#withGoogle")
    void theConditionOfAFileHoldsAtTheCommit(Store store) throws Exception {
        Job job = newJob(store, "a");
        TaskAttempt attempt = job.attempt("t0", "t0-0");
        write(attempt, "0", LARGE);
        try (TaskWriter writer = attempt.writer("1", Options.of("create_only", "true"))) {
            writer.write(LARGE);
            writer.finish();
        }
        attempt.commit();
        store.put("1", new byte[] {1});
        fails(Kind.ALREADY_EXISTS, job::commit);
        assertFalse(store.exists("0"));
        store.delete("1");
        assertEquals(2, job.commit().objects());
        assertArrayEquals(LARGE, store.get("1"));
    }

    @Test
    void whatALateAttemptHasLeftIsRemoved() throws Exception {
        Store out = Servers.embedded().within("late-job");
        Job job = newJob(out, "a");
        TaskAttempt zombie = job.attempt("t0", "zombie");
        write(zombie, "0", LARGE);
        String record =
                keys(out).stream()
                        .filter(key -> key.startsWith("__tidegate_a/attempts/"))
                        .findAny()
                        .orElseThrow();
        byte[] text = out.get(record);
        job.commit();
        fails(Kind.CLOSED, () -> zombie.writer("1"));
        assertEquals(List.of("_SUCCESS"), keys(out));
        // As one leaves it that dies while it opens a file.
        out.put(record, text);
        assertEquals(new JobAbort.Removed(1), job.abort());
        out.put(record, text);
        FoundJob found = Job.rollForward(out).get(0);
        assertEquals(new JobOutcome.Ended(new JobAbort.Removed(1)), found.outcome());
        fails(Kind.CLOSED, zombie::commit);
        assertEquals(List.of("_SUCCESS"), keys(out));
    }

    @Test
    void aJobThatWasBegunIsCompletedByTheNext() throws Exception {
        Store out = Servers.impatient().within("stuck-job");
        Job job = newJob(out, "begun");
        runTask(job, "t0", "t0-0", "0");
        TaskAttempt loser = job.attempt("t0", "t0-1");
        write(loser, "0", LARGE);
        runTask(newJob(out, "idle"), "t0", "t0-0", "1");
        fails(Kind.UNCERTAIN, job::commit);
        assertEquals(new JobAbort.Begun(), job.abort());
        assertEquals(new AttemptAbort.JobBegun(), loser.abort());
        fails(Kind.CLOSED, () -> Job.giveUpAll(out));
        assertFalse(out.exists("0"));
        JobSettings settings =
                JobSettings.defaults()
                        .withRollForwardEarlier(true)
                        .withLifetime(Duration.ofHours(1))
                        .withSuccessMarker(false);
        List<FoundJob> earlier = Job.of(out, "next").setUp(settings);
        assertEquals(List.of("begun", "idle"), earlier.stream().map(FoundJob::id).toList());
        CommittedJob committed = new CommittedJob(1, 1, 1, List.of());
        assertEquals(new JobOutcome.Committed(committed), earlier.get(0).outcome());
        assertEquals(new JobOutcome.NotBegun(), earlier.get(1).outcome());
        assertTrue(earlier.get(1).failure().isEmpty());
        assertTrue(out.exists("0"));

        fails(Kind.CLOSED, job::setUp);
        FoundJob again = job.setUp(JobSettings.defaults().withCompleteBegun(true)).get(0);
        assertEquals("begun", again.id());
        assertTrue(again.outcome() instanceof JobOutcome.Committed);
        assertEquals(1, Job.of(out, "idle").commit().objects());
        Job next = Job.of(out, "next");
        runTask(next, "t0", "t0-0", "2");
        assertEquals(1, next.commit().objects());
        // It was to write no marker: that of the job before stays, and does not tell of this one.
        assertEquals(Optional.of("idle"), Job.lastCompleted(out));
        fails(Kind.NOT_FOUND, next::commit);
    }

    @Test
    void jobsThatWereNotBegunAreGivenUpTogether() throws Exception {
        Store out = Servers.embedded().within("unfinished-jobs");
        runTask(newJob(out, "a"), "t0", "t0-0", "0", "1");
        out.put("__tidegate_a/attempts/t9/t9/x.json", "torn".getBytes(StandardCharsets.UTF_8));
        newJob(out, "b");
        fails(Kind.INVALID_INPUT, () -> Job.of(out, "a").abortAttempt("t9", "t9"));
        List<FoundJob> ended = Job.abandonUnfinished(out);
        List<String> torn = List.of("__tidegate_a/attempts/t9/t9/x.json");
        JobAbort ofA = new JobAbort.Abandoned(2, 0, torn);
        assertEquals(new JobOutcome.Ended(ofA), ended.get(0).outcome());
        assertEquals("b", ended.get(1).id());
        assertEquals(2, ended.size());
        assertEquals(List.of(), keys(out));
        newJob(out, "c");
        assertEquals(List.of("c"), Job.giveUpAll(out).stream().map(FoundJob::id).toList());
        assertEquals(List.of(), keys(out));
    }

    @Test
    void aJobThatCanNotBeCompletedSaysHowItIsEnded() throws Exception {
        Store root = Servers.impatient();
        Store out = root.within("stuck-end");
        Job job = newJob(out, "a");
        runTask(job, "t0", "t0-0", "0", "1");
        fails(Kind.UNCERTAIN, job::commit);
        String pointer = "stuck-end/__tidegate_a/commit.json";
        byte[] intent = root.get(".tidegate/manifests/" + pointer);
        Manifest set = Manifest.fromJson(new String(intent, StandardCharsets.UTF_8));
        // The one that the store has refused to publish.
        Pending lost =
                set.pending().stream()
                        .filter(each -> each.key().equals("stuck-end/1"))
                        .findFirst()
                        .get();
        root.abandon(lost);
        TidegateException stuck = fails(Kind.SESSION_LOST, job::commit);
        assertTrue(stuck.getMessage().contains("tidegate abandon --manifest"), stuck.getMessage());
        assertTrue(stuck.getMessage().contains(pointer), stuck.getMessage());
        assertTrue(stuck.object().endsWith(lost.key()), stuck.object());
        FoundJob found = Job.rollForward(out).get(0);
        assertEquals(stuck.object(), found.failure().get().object());
        fails(Kind.SESSION_LOST, found::outcome);
        int visible = root.abandonSet(pointer).visible().size();
        JobAbort ended = job.abort();
        assertEquals(visible, assertInstanceOf(JobAbort.Abandoned.class, ended).visible());
        assertEquals(visible, keys(out).size());
    }

    @Test
    void wrongNamesAndTimesAreRefused() throws Exception {
        Store out = Servers.embedded().within("names-of-jobs");
        for (String id : List.of("", ".", "..", "a/b", "a b", "ä", "a\n", "a".repeat(201))) {
            TidegateException refused = fails(Kind.INVALID_INPUT, () -> Job.of(out, id));
            assertTrue(refused.getMessage().contains("id of a job"), refused.getMessage());
            assertTrue(refused.object().startsWith("job "), refused.object());
        }
        Job job = Job.of(out, "job_2026.11-30");
        assertEquals("job_2026.11-30", job.id());
        fails(Kind.CLOSED, () -> job.attempt("t", "t"));
        JobSettings negative = JobSettings.defaults().withLifetime(Duration.ofMillis(-1));
        fails(Kind.INVALID_INPUT, () -> job.setUp(negative));
        job.setUp(JobSettings.defaults().withLifetime(Duration.ZERO));
        fails(Kind.INVALID_INPUT, () -> job.attempt("t/0", "t"));
        fails(Kind.INVALID_INPUT, () -> job.attempt("t", ".."));
        fails(Kind.INVALID_INPUT, () -> job.abortAttempt("t", ""));
        // Its lifetime is over.
        fails(Kind.CLOSED, () -> job.attempt("t", "t").writer("0"));
        job.abort();
        fails(Kind.NO_BUCKET, () -> newJob(Servers.missing(), "a"));
    }
}
