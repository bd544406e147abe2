package io.tidegate;

import static io.tidegate.Servers.bytes;
import static io.tidegate.Servers.fails;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.tidegate.TidegateException.Kind;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

import java.io.OutputStream;
import java.time.Duration;
import java.time.Instant;
import java.util.List;

class PendingTest {
    /** Two parts. */
    private static final byte[] LARGE = bytes(7 << 20);

    private static final Options PARTS = Options.of("part_size", "5MiB");

    private static Writer written(Store store, String key, Options options) throws Exception {
        Writer writer = store.writer(key, options.and("part_size", "5MiB"));
        writer.write(LARGE);
        return writer;
    }

    @ParameterizedTest
    @MethodSource("io.tidegate.Servers#withGoogle")
    void aPendingUploadIsPublishedOnce(Store store) throws Exception {
        Writer writer = store.writer("pending", PARTS);
        Pending pending;
        try (OutputStream stream = writer.asOutputStream()) {
            stream.write(LARGE, 0, LARGE.length - 2);
            // The stream gathers these.
            stream.write(LARGE[LARGE.length - 2]);
            stream.write(LARGE[LARGE.length - 1]);
            pending = writer.prepare(Duration.ofHours(1));
        }
        assertFalse(store.exists("pending"));
        assertEquals(LARGE.length, pending.size());
        assertTrue(pending.key().endsWith("pending"), pending.key());
        assertTrue(store.location().startsWith(pending.url()), pending.url());
        assertTrue(pending.until().isAfter(Instant.now()));
        assertTrue(pending.until().isBefore(Instant.now().plus(Duration.ofHours(2))));
        assertTrue(pending.warning().isEmpty());
        Pending read = Pending.fromJson(pending.toJson());
        assertEquals(pending, read);
        assertFalse(pending.toString().contains(pending.toJson()), pending.toString());
        ObjectInfo object = store.commit(read);
        assertEquals("pending", object.key());
        assertArrayEquals(LARGE, store.get("pending"));
        object.text(pending.checksumAlgorithm())
                .ifPresent(checksum -> assertEquals(pending.checksum(), checksum));
        assertEquals(LARGE.length, store.commit(pending).size().getAsLong());
        fails(Kind.CLOSED, () -> store.abandon(pending));
        fails(Kind.CLOSED, () -> writer.write(LARGE));
    }

    @ParameterizedTest
    @MethodSource("io.tidegate.Servers#withGoogle")
    void whatIsAbandonedIsLost(Store store) throws Exception {
        Pending pending = written(store, "abandoned", Options.none()).prepare();
        store.abandon(pending);
        store.abandon(pending);
        fails(Kind.SESSION_LOST, () -> store.commit(pending));
        assertFalse(store.exists("abandoned"));
    }

    @ParameterizedTest
    @MethodSource("io.tidegate.Servers#withGoogle")
    void theConditionHoldsAtTheCommit(Store store) throws Exception {
        Options createOnly = Options.of("create_only", "true");
        Pending pending = written(store, "condition", createOnly).prepare();
        store.put("condition", new byte[] {1});
        fails(Kind.ALREADY_EXISTS, () -> store.commit(pending));
        assertArrayEquals(new byte[] {1}, store.get("condition"));
        store.delete("condition");
        store.commit(pending);
        assertArrayEquals(LARGE, store.get("condition"));
    }

    @ParameterizedTest
    @MethodSource("io.tidegate.Servers#withGoogle")
    void anUploadGoesOnFromAPoint(Store store) throws Exception {
        Resumable superseded;
        Resumable point;
        int at = (6 << 20) + 7;
        try (Writer writer = store.writer("point", PARTS)) {
            writer.write(LARGE, 0, 1000);
            superseded = writer.persist();
            writer.write(LARGE, 1000, at - 1000);
            point = writer.persist(Duration.ofHours(1));
            writer.write(LARGE, at, 100_000);
        }
        assertEquals(1000, superseded.size());
        store.forget(superseded);
        assertEquals(at, point.size());
        Resumable read = Resumable.fromJson(point.toJson());
        assertEquals(point, read);
        try (Writer writer = store.resume(read)) {
            assertEquals(at, writer.position());
            writer.write(LARGE, at, LARGE.length - at);
            assertEquals(LARGE.length, writer.position());
            writer.finish();
        }
        assertArrayEquals(LARGE, store.get("point"));
        fails(Kind.SESSION_LOST, () -> store.resume(point));
    }

    @ParameterizedTest
    @ValueSource(strings = {"http", "grpc"})
    void anUploadThatTheStoreMayEndEarlierIsLogged(String transport) throws Exception {
        Store store = Servers.open(transport, "/early");
        Options createOnly = Options.of("create_only", "true");
        try (Logged logged = new Logged();
                Writer writer = written(store, "warned", createOnly)) {
            Resumable point = writer.persist(Duration.ofDays(30));
            String warning = point.warning().orElseThrow();
            logged.next(point + ": " + warning);
            assertTrue(Resumable.fromJson(point.toJson()).warning().isEmpty());
            Pending pending = writer.prepare(Duration.ofDays(30));
            logged.next(pending + ": " + warning);
            store.abandon(pending);
            Writer ofSet = written(store, "warned-set", createOnly);
            Manifest set = store.prepareAll("all", List.of(ofSet), Duration.ofDays(30));
            logged.next(set.pending().get(0) + ": " + warning);
            store.abandonAll(set);
        }
    }

    @Test
    void aPointCanBeAbandoned() throws Exception {
        Store store = Servers.embedded();
        Writer writer = written(store, "point-abandoned", Options.none());
        Resumable point = writer.persist();
        writer.close();
        store.abandon(point);
        fails(Kind.SESSION_LOST, () -> store.resume(point));
    }

    @Test
    void whatIsNoUploadIsRefused() throws Exception {
        Store store = Servers.embedded();
        Pending pending = written(store, "texts", Options.none()).prepare();
        for (String json : List.of("", "{}", "{\"version\": 99}", pending.toJson() + "}")) {
            fails(Kind.INVALID_INPUT, () -> Pending.fromJson(json));
            fails(Kind.INVALID_INPUT, () -> Resumable.fromJson(json));
            fails(Kind.INVALID_INPUT, () -> Manifest.fromJson(json));
        }
        Store other = Tidegate.shared().open("memory://other");
        fails(Kind.INVALID_INPUT, () -> other.commit(pending));
        store.abandon(pending);
        try (Writer writer = other.writer("a")) {
            fails(Kind.INVALID_INPUT, () -> writer.prepare(Duration.ofMillis(-1)));
            writer.prepare();
            fails(Kind.CLOSED, writer::prepare);
        }
    }

    @ParameterizedTest
    @MethodSource("io.tidegate.Servers#withGoogle")
    void aSetIsPublishedTogether(Store store) throws Exception {
        List<Writer> writers =
                List.of(
                        written(store, "set/1", Options.none()),
                        written(store, "set/2", Options.of("create_only", "true")));
        writers.get(0).asOutputStream().write(7);
        Manifest manifest = store.prepareAll("set/all", writers, Duration.ofHours(1));
        assertEquals(List.of(), store.list("set/").toList());
        assertTrue(manifest.pointer().endsWith("set/all"));
        assertEquals(LARGE.length + 1, manifest.pending().get(0).size());
        Manifest read = Manifest.fromJson(manifest.toJson());
        assertEquals(manifest, read);
        List<ObjectInfo> objects = store.commitAll(read);
        assertEquals(List.of("set/1", "set/2"), keys(objects));
        store.commitAll(manifest);
        assertTrue(store.exists("set/all"));
        assertTrue(store.rollForward("set/all").isEmpty());
        fails(Kind.CLOSED, () -> store.abandonAll(manifest));
        fails(Kind.CLOSED, () -> store.abandonSet("set/all"));
    }

    /** Those of a set are relative to the bucket. */
    private static List<String> keys(List<ObjectInfo> objects) {
        return objects.stream()
                .map(object -> object.key().substring(object.key().indexOf("set/")))
                .toList();
    }

    @ParameterizedTest
    @MethodSource("io.tidegate.Servers#withGoogle")
    void aSetIsGivenUpTogether(Store store) throws Exception {
        Pending one = written(store, "set/1", Options.none()).prepare();
        Pending two = written(store, "set/2", Options.none()).prepare();
        String pointer = one.key().replace("set/1", "set/given-up");
        Manifest manifest = Manifest.of(pointer, List.of(one, two));
        fails(Kind.NOT_FOUND, () -> store.rollForward("set/given-up"));
        store.abandonAll(manifest);
        fails(Kind.SESSION_LOST, () -> store.commitAll(manifest));
        assertEquals(List.of(), store.list("set/").toList());
        fails(Kind.INVALID_INPUT, () -> Manifest.of(pointer, List.of()));
        fails(Kind.INVALID_INPUT, () -> Manifest.of(pointer, List.of(one, one)));
    }

    @Test
    void aSetThatFailsToPrepareIsDiscarded() throws Exception {
        Store store = Servers.impatient();
        List<Writer> writers =
                List.of(store.writer("discarded-set/1"), store.writer("refused-put/2"));
        for (Writer writer : writers) {
            writer.write(new byte[10]);
        }
        // Its last part is refused.
        Writer refused = store.writer("refused-part/3");
        refused.write(new byte[10]);
        fails(
                Kind.UNAVAILABLE,
                () -> store.prepareAll("discarded-set/all", List.of(writers.get(0), refused)));
        fails(Kind.CLOSED, () -> writers.get(0).write(new byte[1]));
        writers.get(1).close();
        Tidegate.shared(Options.of("attempts", "2")).waitForAborts(Duration.ofSeconds(60));
        assertEquals(List.of(), store.list("discarded-set/").toList());
    }

    @Test
    void aSetThatWasBegunIsCompleted() throws Exception {
        Store store = Servers.impatient();
        Manifest manifest =
                store.prepareAll(
                        "begun-set/all",
                        List.of(
                                written(store, "begun-set/1", Options.none()),
                                written(store, "stuck-once/2", Options.none())));
        fails(Kind.UNCERTAIN, () -> store.commitAll(manifest));
        assertFalse(store.exists("begun-set/all"));
        assertEquals(2, store.rollForward("begun-set/all").orElseThrow().size());
        assertTrue(store.exists("begun-set/all"));
        assertArrayEquals(LARGE, store.get("stuck-once/2"));
    }

    @Test
    void aSetThatCanNotBeCompletedIsEnded() throws Exception {
        Store store = Servers.impatient();
        Manifest manifest =
                store.prepareAll(
                        "lost-set/all",
                        List.of(
                                written(store, "lost-set/1", Options.none()),
                                written(store, "stuck-lost/2", Options.none())));
        fails(Kind.UNCERTAIN, () -> store.commitAll(manifest));
        fails(Kind.CLOSED, () -> store.abandonSet("lost-set/all"));
        store.abandon(manifest.pending().get(1));
        fails(Kind.SESSION_LOST, () -> store.rollForward("lost-set/all"));
        AbandonedSet ended = store.abandonSet("lost-set/all");
        assertEquals(List.of(manifest.pending().get(0)), ended.visible());
        assertEquals(List.of(manifest.pending().get(1)), ended.abandoned());
        assertFalse(store.exists("lost-set/all"));
    }
}
