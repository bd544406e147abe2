package io.tidegate;

import static io.tidegate.Servers.bytes;
import static io.tidegate.Servers.fails;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.tidegate.TidegateException.Kind;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.IntStream;
import java.util.stream.Stream;

class StoreTest {
    @ParameterizedTest
    @MethodSource("io.tidegate.Servers#withGoogle")
    void aPartOfAStoreHasKeysOfItsOwn(Store store) throws Exception {
        Store part = store.within("a").within("b/");
        part.put("c", new byte[] {1});
        assertArrayEquals(new byte[] {1}, store.get("a/b/c"));
        assertEquals(List.of("c"), part.list("").map(Entry::key).toList());
        assertTrue(part.location().endsWith("a/b"), part.location());
        assertTrue(store.within("").exists("a/b/c"));
    }

    @ParameterizedTest
    @MethodSource("io.tidegate.Servers#all")
    void wholeObjects(Store store) throws Exception {
        byte[] bytes = bytes(100_000);
        Options options = Options.of("content_type", "text/x-tide").and("metadata", "origin=tide");
        for (ByteBuffer each :
                List.of(
                        ByteBuffer.wrap(bytes),
                        ByteBuffer.allocateDirect(bytes.length).put(bytes).flip())) {
            assertEquals(
                    bytes.length,
                    store.put("a/b", each.asReadOnlyBuffer(), options).size().getAsLong());
            assertArrayEquals(bytes, store.get("a/b"));
        }
        ObjectInfo object = store.stat("a/b");
        assertEquals("a/b", object.key());
        assertEquals("text/x-tide", object.text("content_type").orElseThrow());
        assertEquals(Map.of("origin", "tide"), object.metadata());
        assertTrue(object.lastModified().isPresent() && object.etag().isPresent());
        assertEquals(bytes.length, store.copy("a/b", "a/c").size().getAsLong());
        assertArrayEquals(bytes, store.get("a/c"));
        assertTrue(store.exists("a/c"));
        store.delete("a/c");
        store.delete("a/c");
        assertFalse(store.exists("a/c"));
        assertEquals(0, store.put("empty", new byte[0]).size().getAsLong());
        assertArrayEquals(new byte[0], store.get("empty"));
    }

    @ParameterizedTest
    @MethodSource("io.tidegate.Servers#all")
    void files(Store store, @TempDir Path folder) throws Exception {
        byte[] bytes = bytes(9 << 20);
        Path from = Files.write(folder.resolve("from"), bytes);
        Files.setLastModifiedTime(from, FileTime.from(Instant.ofEpochSecond(1_000_000_000)));
        Options kept = Options.of("preserve", "true");
        ObjectInfo object = store.upload(from, "file", kept.and("content_type", "text/x-tide"));
        assertEquals(bytes.length, object.size().getAsLong());
        assertEquals("text/x-tide", store.stat("file").text("content_type").orElseThrow());
        Path to = folder.resolve("new/to");
        assertEquals(bytes.length, store.download("file", to, kept).size().getAsLong());
        assertArrayEquals(bytes, Files.readAllBytes(to));
        assertEquals(Files.getLastModifiedTime(from), Files.getLastModifiedTime(to));
        Options createOnly = Options.of("create_only", "true");
        fails(Kind.ALREADY_EXISTS, () -> store.download("file", to, createOnly));
        fails(Kind.ALREADY_EXISTS, () -> store.upload(from, "file", createOnly));
        fails(Kind.NOT_FOUND, () -> store.download("nothing", folder.resolve("nothing")));
        assertFalse(Files.exists(folder.resolve("nothing")));
        fails(Kind.SOURCE, () -> store.upload(folder.resolve("nothing"), "nothing"));
        assertFalse(store.exists("nothing"));
    }

    @Test
    void whatAnotherUserMayHaveLeftIsLoggedAndNotUsed(@TempDir Path folder) throws Exception {
        Store store = Servers.impatient();
        store.put("cut/download", bytes(1 << 20));
        Path to = folder.resolve("to");
        fails(Kind.UNAVAILABLE, () -> store.download("cut/download", to));
        List<Path> left;
        try (Stream<Path> all = Files.list(folder)) {
            left = all.toList();
        }
        assertEquals(2, left.size(), left::toString);
        for (Path each : left) {
            Files.setPosixFilePermissions(each, PosixFilePermissions.fromString("rw-rw-rw-"));
        }
        try (Logged logged = new Logged()) {
            Servers.embedded().download("cut/download", to);
            logged.next(to.toString());
        }
        assertArrayEquals(bytes(1 << 20), Files.readAllBytes(to));
    }

    @Test
    void aFileOfAnotherFileSystemIsRefused(@TempDir Path folder) throws Exception {
        Store store = Tidegate.shared().open("memory://zip");
        Path zip = folder.resolve("a.zip");
        try (java.nio.file.FileSystem inZip =
                java.nio.file.FileSystems.newFileSystem(zip, Map.of("create", "true"))) {
            Path inside = Files.write(inZip.getPath("/inside"), new byte[1]);
            fails(Kind.INVALID_INPUT, () -> store.upload(inside, "a"));
            fails(Kind.INVALID_INPUT, () -> store.download("a", inside));
        }
    }

    @ParameterizedTest
    @MethodSource("io.tidegate.Servers#all")
    void manyAreRemoved(Store store) throws Exception {
        List<String> keys = IntStream.range(0, 30).mapToObj(number -> "many/" + number).toList();
        for (String key : keys) {
            store.put(key, new byte[1]);
        }
        store.put("stays", new byte[1]);
        // More than one native call takes; most have no object.
        List<String> all = new ArrayList<>(keys);
        IntStream.range(0, 10_500).forEach(number -> all.add("none/" + number));
        DeleteReport report = store.deleteAll(all);
        report.orThrow();
        assertEquals(10_530, report.deleted());
        assertEquals(List.of("stays"), store.list("").map(Entry::key).toList());
        store.deleteAll(List.of()).orThrow();
    }

    @Test
    void whatWasNotRemovedIsReported() throws Exception {
        Store store = Servers.embedded();
        String tooLong = "x".repeat(5000);
        String tooLongToo = "y".repeat(5000);
        store.put("removed", new byte[1]);
        DeleteReport report = store.deleteAll(List.of(tooLong, "removed", tooLongToo));
        assertEquals(1, report.deleted());
        // In the order in which they have failed.
        assertEquals(Set.of(tooLong, tooLongToo), report.failed().keySet());
        List<TidegateException> why = List.copyOf(report.failed().values());
        TidegateException thrown = fails(Kind.INVALID_INPUT, report::orThrow);
        assertEquals(why.get(0).getMessage(), thrown.getMessage());
        assertArrayEquals(new Throwable[] {why.get(1)}, thrown.getSuppressed());
        assertFalse(store.exists("removed"));
    }

    @ParameterizedTest
    @MethodSource("io.tidegate.Servers#all")
    void renames(Store store) throws Exception {
        store.put("from", new byte[] {1});
        assertEquals("to", store.rename("from", "to").key());
        assertTrue(store.find("from").isEmpty());
        assertEquals(1, store.find("to").orElseThrow().size().getAsLong());
        store.put("from", new byte[2]);
        Options createOnly = Options.of("create_only", "true");
        fails(Kind.ALREADY_EXISTS, () -> store.rename("from", "to", createOnly));
        assertTrue(store.exists("from"));
        store.rename("from", "to");
        assertArrayEquals(new byte[2], store.get("to"));
        fails(Kind.NOT_FOUND, () -> store.rename("from", "to"));
    }

    @Test
    void whatCanNotBeAskedIsNoMissingObject() throws Exception {
        fails(Kind.UNAVAILABLE, () -> Servers.impatient().find("refused-head/a"));
    }

    @ParameterizedTest
    @MethodSource("io.tidegate.Servers#all")
    void listings(Store store) throws Exception {
        for (String key : List.of("a", "b/1", "b/2", "c\u00e9 \ud83c\udf0a")) {
            store.put(key, key.getBytes(java.nio.charset.StandardCharsets.UTF_8));
        }
        assertEquals(
                List.of("a", "b/1", "b/2", "c\u00e9 \ud83c\udf0a"),
                store.list("").map(Entry::key).toList());
        assertEquals(List.of("b/1", "b/2"), store.list("b/").map(Entry::key).toList());
        List<Entry> flat = store.list("", Options.of("recursive", "false")).limit(2).toList();
        assertEquals(
                List.of(Entry.Type.OBJECT, Entry.Type.PREFIX),
                flat.stream().map(Entry::type).toList());
        assertEquals("b/", flat.get(1).key());
        assertEquals(1, flat.get(0).object().orElseThrow().size().getAsLong());
    }

    @Test
    void aListingThatFailsIsNotShort() throws Exception {
        Store nowhere = Servers.missing();
        UncheckedIOException failed =
                assertThrows(UncheckedIOException.class, () -> nowhere.list("").count());
        assertEquals(Kind.NO_BUCKET, ((TidegateException) failed.getCause()).kind());
    }

    @ParameterizedTest
    @MethodSource("io.tidegate.Servers#all")
    void failuresHaveTypes(Store store) throws Exception {
        TidegateException missing = fails(Kind.NOT_FOUND, () -> store.stat("nothing"));
        assertEquals("head", missing.operation());
        assertEquals(store.location() + "/nothing", missing.object());
        assertTrue(missing.attempts() >= 1);
        assertInstanceOf(NoSuchFileException.class, missing.getCause());
        assertTrue(missing.getMessage().contains("/nothing"), missing.getMessage());
        fails(Kind.NOT_FOUND, () -> store.get("nothing"));
        fails(Kind.NOT_FOUND, () -> store.reader("nothing"));
        store.put("here", new byte[1]);
        Options createOnly = Options.of("create_only", "true");
        TidegateException exists =
                fails(
                        Kind.ALREADY_EXISTS,
                        () -> store.put("here", ByteBuffer.allocate(2), createOnly));
        assertInstanceOf(FileAlreadyExistsException.class, exists.getCause());
        assertEquals(1, store.stat("here").size().getAsLong());
    }

    @Test
    void optionsAreRefusedByName() throws Exception {
        Store store = Tidegate.shared().open("memory://options");
        Options unknown = Options.of("colour", "blue");
        for (org.junit.jupiter.api.function.Executable call :
                List.<org.junit.jupiter.api.function.Executable>of(
                        () -> Tidegate.shared(unknown),
                        () -> Tidegate.shared().open("memory://options", unknown),
                        () -> store.put("a", ByteBuffer.allocate(1), unknown),
                        () -> store.writer("a", unknown),
                        () -> store.reader("a", unknown),
                        () -> store.list("", unknown),
                        () -> store.copy("a", store, "b", unknown))) {
            assertTrue(fails(Kind.INVALID_INPUT, call).getMessage().contains("`colour`"));
        }
        String misplaced =
                fails(Kind.INVALID_INPUT, () -> store.writer("a", Options.of("memory", "1MiB")))
                        .getMessage();
        assertTrue(misplaced.contains("`memory`"), misplaced);
        String wrong =
                fails(Kind.INVALID_INPUT, () -> Tidegate.shared(Options.of("memory", "much")))
                        .getMessage();
        assertTrue(wrong.contains("`memory`") && wrong.contains("`much`"), wrong);
    }

    @Test
    void halfOfACharacterIsNoKey() throws Exception {
        Store store = Tidegate.shared().open("memory://half");
        fails(Kind.INVALID_INPUT, () -> store.put("a\ud83c", new byte[1]));
        assertEquals(0, store.list("").count());
    }

    @Test
    void replacesOnlyTheNamedObject() throws Exception {
        Store store = Servers.embedded();
        ObjectInfo first = store.put("replaces", new byte[] {1});
        store.put(
                "replaces", ByteBuffer.wrap(new byte[] {2}), Options.none().and("replaces", first));
        fails(
                Kind.REPLACED,
                () ->
                        store.put(
                                "replaces",
                                ByteBuffer.wrap(new byte[] {3}),
                                Options.none().and("replaces", first)));
        assertArrayEquals(new byte[] {2}, store.get("replaces"));
    }
}
