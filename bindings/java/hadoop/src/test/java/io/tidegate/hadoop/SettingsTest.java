package io.tidegate.hadoop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.tidegate.TidegateException;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.junit.jupiter.api.Test;

import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Predicate;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** How settings reach the library, and which schemes are taken. */
class SettingsTest {
    /** What the first call fails with, when there is a setting more. */
    private static IOException failure(String name, String value) throws IOException {
        try (FileSystem fs = TestStore.fileSystem(name, value)) {
            return assertThrows(
                    IOException.class,
                    () -> fs.getFileStatus(new Path(TestStore.uri().resolve("/x"))));
        }
    }

    @Test
    void anUnknownSettingIsRefusedByName() throws IOException {
        TidegateException refused =
                assertInstanceOf(TidegateException.class, failure("fs.tidegate.colour", "blue"));
        assertEquals(TidegateException.Kind.INVALID_INPUT, refused.kind());
        assertTrue(refused.getMessage().contains("`colour`"), refused.getMessage());
    }

    @Test
    void aSettingOfTheFileSystemIsNoneOfABucket() throws IOException {
        String name = "fs.tidegate.bucket." + TestStore.bucket() + ".block_size";
        String own = failure(name, "1").getMessage();
        assertTrue(own.contains("`block_size`"), own);
        String dotted = failure("fs.tidegate.block.size", "1").getMessage();
        assertTrue(dotted.contains("`block.size`"), dotted);
    }

    @Test
    void settingsOfEnginesAndWritesArePassedOn() throws IOException {
        String memory = failure("fs.tidegate.memory", "wrong").getMessage();
        assertTrue(memory.contains("`memory`"), memory);
        try (FileSystem fs = TestStore.fileSystem("fs.tidegate.strategy", "wrong")) {
            String strategy =
                    assertThrows(IOException.class, () -> fs.create(TestStore.directory()))
                            .getMessage();
            assertTrue(strategy.contains("`strategy`"), strategy);
        }
    }

    @Test
    void aSettingOfTheBucketCountsMost() throws IOException {
        String ofBucket = "fs.tidegate.bucket." + TestStore.bucket() + ".memory";
        String here = failure(ofBucket, "wrong").getMessage();
        assertTrue(here.contains("`memory`"), here);
        try (FileSystem fs =
                TestStore.fileSystem(
                        "fs.tidegate.memory",
                        "wrong",
                        "fs.tidegate.bucket.other.memory",
                        "wrong",
                        ofBucket,
                        "64MiB")) {
            assertFalse(fs.exists(TestStore.directory()));
        }
    }

    /** The library hands out no list of its options, so the test reads the source. */
    @Test
    void theOptionsAreThoseOfTheLibrary() throws IOException {
        String source =
                Files.readString(
                        java.nio.file.Path.of("../../../crates/tidegate/src/api/options.rs"));
        Map<String, String> all = new TreeMap<>();
        Matcher row = Pattern.compile("\\(\"(\\w+)\", \"(an? [^\"]+)\"\\)").matcher(source);
        while (row.find()) {
            all.put(row.group(1), row.group(2));
        }
        assertEquals(Settings.OF_ENGINE, names(all, of -> of.startsWith("an engine")));
        Set<String> ofWrites = names(all, of -> of.startsWith("a write"));
        // These belong to one file.
        ofWrites.removeAll(Set.of("create_only", "exact_size", "replaces", "size_hint"));
        assertEquals(Settings.OF_WRITES, ofWrites);
        Matcher repeated = Pattern.compile("(?s)REPEATED: .*?= \\[(.*?)]").matcher(source);
        assertTrue(repeated.find());
        assertEquals(Settings.REPEATED, Set.of(repeated.group(1).replace("\"", "").split(", ")));
    }

    private static Set<String> names(Map<String, String> all, Predicate<String> isOf) {
        Set<String> names = new TreeSet<>(all.keySet());
        names.removeIf(name -> !isOf.test(all.get(name)));
        return names;
    }

    @Test
    void tgIsTakenWithoutASettingAndTheOthersAreNot() throws IOException {
        Configuration conf = new Configuration(false);
        assertEquals(TidegateFileSystem.class, FileSystem.getFileSystemClass("tg", conf));
        for (String scheme : new String[] {"s3", "s3a", "gs", "abfs", "abfss"}) {
            assertThrows(IOException.class, () -> FileSystem.getFileSystemClass(scheme, conf));
        }
    }

    @Test
    void aUriWithoutABucketIsRefused() {
        Configuration conf = TestStore.configure(new Configuration());
        for (String uri : new String[] {"tg:///bucket/key", "tg://ftp/bucket"}) {
            assertThrows(
                    IllegalArgumentException.class,
                    () -> FileSystem.newInstance(URI.create(uri), conf));
        }
    }

    /** All of tg://, with the bucket in the path. */
    @Test
    void tgHasTheBucketInThePath() throws IOException {
        URI uri = TestStore.uri();
        Configuration conf = TestStore.configure(new Configuration());
        String store =
                switch (uri.getScheme()) {
                    case "s3a" -> "s3";
                    case "abfs" -> "az";
                    default -> uri.getScheme();
                };
        if (store.equals("az")) {
            conf.set("fs.tidegate.account", uri.getHost().replaceFirst("\\..*", ""));
        }
        Path root = new Path("tg://" + store + "/" + TestStore.bucket());
        try (FileSystem tg = FileSystem.newInstance(root.toUri(), conf)) {
            Path directory = new Path(root, TestStore.directory().getName());
            TestStore.write(tg, new Path(directory, "a"), "text");
            assertEquals(
                    "text",
                    TestStore.text(
                            TestStore.fileSystem(),
                            new Path(uri.resolve("/" + directory.getName() + "/a"))));
            assertTrue(tg.rename(new Path(directory, "a"), new Path(directory, "b")));
            assertEquals(new Path(directory, "b"), tg.listStatus(directory)[0].getPath());
            assertTrue(tg.delete(directory, true));
            assertTrue(tg.getFileStatus(new Path("tg://" + store + "/")).isDirectory());
            assertThrows(IOException.class, () -> tg.create(new Path("tg://" + store + "/")));
        }
    }
}
