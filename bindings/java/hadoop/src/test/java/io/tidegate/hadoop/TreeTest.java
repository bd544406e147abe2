package io.tidegate.hadoop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.apache.hadoop.fs.ContentSummary;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.fs.contract.ContractTestUtils;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** Directories: what follows from keys, and what changes them. */
class TreeTest {
    private final FileSystem fs = TestStore.fileSystem();
    private final Path root = TestStore.directory();

    TreeTest() throws IOException {}

    @AfterEach
    void remove() throws IOException {
        fs.delete(root, true);
    }

    private Path at(String below) {
        return new Path(root, below);
    }

    /** The files below a directory, by their paths below it, with their texts. */
    private Map<String, String> files(Path directory) throws IOException {
        Map<String, String> found = new TreeMap<>();
        RemoteIterator<LocatedFileStatus> files = fs.listFiles(directory, true);
        while (files.hasNext()) {
            Path file = files.next().getPath();
            String below = file.toString().substring(directory.toString().length() + 1);
            found.put(below, TestStore.text(fs, file));
        }
        return found;
    }

    @Test
    void aTreeMovesWholeWithItsEmptyDirectories() throws IOException {
        Map<String, String> written = new TreeMap<>();
        for (int number = 0; number < 120; number++) {
            String below = "d" + number % 7 + "/e/" + number;
            written.put(below, "text " + number);
            TestStore.write(fs, at("old/" + below), "text " + number);
        }
        fs.mkdirs(at("old/empty"));
        assertTrue(fs.rename(at("old"), at("new")));
        assertEquals(written, files(at("new")));
        assertTrue(fs.getFileStatus(at("new/empty")).isDirectory());
        assertFalse(fs.exists(at("old")));
        assertTrue(fs.getFileStatus(root).isDirectory());
    }

    @Test
    void aRenameReplacesNothing() throws IOException {
        TestStore.write(fs, at("a"), "a");
        TestStore.write(fs, at("b"), "b");
        TestStore.write(fs, at("in/a"), "in");
        assertFalse(fs.rename(at("a"), at("b")));
        assertFalse(fs.rename(at("a"), at("in")));
        assertFalse(fs.rename(at("a"), at("nowhere/a")));
        assertEquals("{a=a, b=b, in/a=in}", files(root).toString());
    }

    @Test
    void aDirectoryStaysWhenItsLastFileHasGone() throws IOException {
        TestStore.write(fs, at("x/y/file"), "1");
        assertTrue(fs.delete(at("x/y/file"), false));
        assertTrue(fs.getFileStatus(at("x/y")).isDirectory());
        TestStore.write(fs, at("x/z/file"), "1");
        assertTrue(fs.rename(at("x/z/file"), at("x/file")));
        assertTrue(fs.getFileStatus(at("x/z")).isDirectory());
    }

    @Test
    void aListingOfSeveralPagesIsWhole() throws IOException {
        int count = 1030;
        List<Path> paths = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            paths.add(at("many/" + number));
        }
        paths.parallelStream()
                .forEach(
                        path -> {
                            try {
                                ContractTestUtils.touch(fs, path);
                            } catch (IOException e) {
                                throw new java.io.UncheckedIOException(e);
                            }
                        });
        assertEquals(count, fs.listStatus(at("many")).length);
        ContentSummary summary = fs.getContentSummary(root);
        assertEquals(count, summary.getFileCount());
        assertEquals(2, summary.getDirectoryCount());
        assertTrue(fs.delete(at("many"), true));
        assertThrows(FileNotFoundException.class, () -> fs.listStatus(at("many")));
    }

    @Test
    void namesAreKeptAsTheyAre() throws IOException {
        List<String> names =
                List.of("a:b", "a b", "100%", "%41", "é", "日本", "a+b", "[x]", "{y}", "~", "a#b?c");
        for (String name : names) {
            Path path = new Path(root, new Path(null, null, name));
            TestStore.write(fs, path, name);
            assertEquals(name, TestStore.text(fs, path));
        }
        List<String> listed =
                Arrays.stream(fs.listStatus(root))
                        .map(status -> status.getPath().getName())
                        .toList();
        assertEquals(names.stream().sorted().toList(), listed.stream().sorted().toList());
        for (FileStatus status : fs.listStatus(root)) {
            assertEquals(status.getPath().getName(), TestStore.text(fs, status.getPath()));
        }
    }

    @Test
    void aSummaryCountsDirectoriesOnce() throws IOException {
        TestStore.write(fs, at("a/b/1"), "12345");
        TestStore.write(fs, at("a/b/2"), "1");
        TestStore.write(fs, at("a-b/3"), "1");
        TestStore.write(fs, at("a.txt"), "1");
        fs.mkdirs(at("a/c/d"));
        ContentSummary summary = fs.getContentSummary(root);
        // The root, a, a/b, a/c, a/c/d and a-b.
        assertEquals(6, summary.getDirectoryCount());
        assertEquals(4, summary.getFileCount());
        assertEquals(8, summary.getLength());
        assertEquals(1, fs.getContentSummary(at("a.txt")).getFileCount());
        assertEquals(0, fs.getContentSummary(at("a.txt")).getDirectoryCount());
    }

    /** The path of a directory deletes nothing, and is no failure. */
    @Test
    void aBulkDeleteDoesNotLookForDirectories() throws IOException {
        TestStore.write(fs, at("dir/file"), "1");
        assertEquals(List.of(), fs.createBulkDelete(root).bulkDelete(List.of(at("dir"))));
        assertTrue(fs.getFileStatus(at("dir")).isDirectory());
        assertEquals("1", TestStore.text(fs, at("dir/file")));
    }

    @Test
    void aBucketIsNotEmptiedByItsRoot() throws IOException {
        TestStore.write(fs, at("file"), "1");
        assertFalse(fs.delete(new Path(TestStore.uri().resolve("/")), true));
        assertEquals("1", TestStore.text(fs, at("file")));
    }
}
