package io.tidegate;

import static io.tidegate.Servers.bytes;
import static io.tidegate.Servers.fails;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.tidegate.TidegateException.Kind;

import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.nio.file.Path;
import java.time.Duration;
import java.util.Optional;

class RecoverTest {
    /** Two parts. */
    private static final byte[] LARGE = bytes(6 << 20);

    private static final Options JOURNAL = Options.of("strategy", "journal");

    @TempDir Path journal;
    private Tidegate tide;

    @BeforeEach
    void engine() throws Exception {
        tide =
                Tidegate.shared(
                        Options.of("journal", journal.toString())
                                .and("attempts", "2")
                                .and("part_size", "5MiB"));
    }

    /** What a producer leaves that stops at this byte. */
    private UnfinishedUpload left(Store store, String key, int length) throws Exception {
        try (Writer writer = store.writer(key, JOURNAL)) {
            writer.write(LARGE, 0, length);
        }
        tide.waitForAborts(Duration.ofSeconds(60));
        return one();
    }

    private UnfinishedUpload one() throws Exception {
        assertEquals(1, tide.recover().size());
        return tide.recover().get(0);
    }

    @ParameterizedTest
    @ValueSource(strings = {"embedded", "minio", "http", "grpc"})
    void anUploadGoesOn(String server) throws Exception {
        Store store = Servers.open(tide, server, "/recover");
        int length = (5 << 20) + 3;
        UnfinishedUpload left = left(store, "goes-on", length);
        assertEquals(Optional.of(store.location() + "/goes-on"), left.url());
        assertEquals(length, left.length());
        assertFalse(left.isFinished());
        assertFalse(left.id().isEmpty());
        assertEquals(Optional.empty(), left.problem());
        Resumed.Continued goesOn = assertInstanceOf(Resumed.Continued.class, left.resume(store));
        try (Writer writer = goesOn.writer()) {
            assertEquals(length, writer.position());
            assertTrue(one().problem().isPresent());
            fails(Kind.INVALID_INPUT, () -> one().resume(store));
            writer.write(LARGE, length, LARGE.length - length);
            assertEquals(LARGE.length, writer.sync());
            writer.finish();
        }
        assertArrayEquals(LARGE, store.get("goes-on"));
        assertTrue(tide.recover().isEmpty());
    }

    @Test
    void aFinishedUploadIsPublished() throws Exception {
        Store store = Servers.open(tide, "embedded", "");
        try (Writer writer = store.writer("stuck-journal/a", JOURNAL)) {
            writer.write(LARGE);
            fails(Kind.UNCERTAIN, writer::finish);
            TidegateException again = fails(Kind.CLOSED, writer::finish);
            assertTrue(again.getMessage().contains("look with Store.stat"), again.getMessage());
        }
        tide.waitForAborts(Duration.ofSeconds(60));
        assertTrue(one().isFinished());
        Resumed.Published published =
                assertInstanceOf(Resumed.Published.class, one().resume(store));
        assertEquals("stuck-journal/a", published.object().key());
        assertArrayEquals(LARGE, store.get("stuck-journal/a"));
    }

    @Test
    void anUploadIsAborted() throws Exception {
        Store store = Servers.open(tide, "embedded", "");
        assertEquals(Optional.empty(), left(store, "journal-aborted", 100).abort(store));
        assertTrue(tide.recover().isEmpty());
        assertFalse(store.exists("journal-aborted"));
        left(store, "journal-forgotten", 100).forget();
        assertTrue(tide.recover().isEmpty());
    }

    @Test
    void theJournalNamesItsStore(@TempDir Path folder) throws Exception {
        Store store = tide.open(folder.toString());
        Resumed.Continued goesOn =
                assertInstanceOf(Resumed.Continued.class, left(store, "a", 100).resume());
        goesOn.writer().finish();
        assertEquals(100, store.get("a").length);
        assertEquals(Optional.empty(), left(store, "b", 100).abort());
        assertTrue(tide.recover().isEmpty());
    }

    @Test
    void theBudgetIsShown() throws Exception {
        Tidegate small = Tidegate.shared(Options.of("memory", "48MiB"));
        Store store = small.open("memory://usage");
        try (Writer writer = store.writer("a")) {
            writer.write(new byte[1000]);
            Usage usage = small.usage();
            assertEquals(48 << 20, usage.total());
            assertTrue(usage.held() >= 1000 && usage.held() <= usage.peak(), usage::toString);
            assertTrue(usage.partial() >= 1000 && usage.partial() <= usage.held(), usage::toString);
            assertEquals(0, usage.waiting());
            assertEquals(0, usage.spooled());
        }
    }
}
