package io.tidegate.hadoop;

import static org.junit.jupiter.api.Assertions.assertEquals;
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
        String bucket = TestStore.uri().getAuthority().split("@", -1)[0];
        String own = failure("fs.tidegate.bucket." + bucket + ".block_size", "1").getMessage();
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
        String authority = TestStore.uri().getAuthority();
        String bucket = authority.split("@", -1)[0];
        String here = failure("fs.tidegate.bucket." + bucket + ".memory", "wrong").getMessage();
        assertTrue(here.contains("`memory`"), here);
        try (FileSystem fs = TestStore.fileSystem("fs.tidegate.bucket.other.memory", "wrong")) {
            fs.exists(TestStore.directory());
        }
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
        if (uri.getAuthority().contains("@")) {
            // The account is not in the path of tg://az/container/key.
            return;
        }
        String store = uri.getScheme().equals("s3a") ? "s3" : uri.getScheme();
        Path root = new Path("tg://" + store + "/" + uri.getAuthority());
        try (FileSystem tg =
                FileSystem.newInstance(root.toUri(), TestStore.configure(new Configuration()))) {
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
