package io.tidegate.hadoop;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.Counters;
import org.apache.hadoop.tools.DistCp;
import org.apache.hadoop.tools.DistCpOptions;
import org.apache.hadoop.tools.mapred.CopyMapper.Counter;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

import java.io.File;
import java.nio.file.Files;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** Hadoop's DistCp, with its maps in this process. */
class DistCpTest {
    private static final int FILES = 4;

    @TempDir File folder;

    private final Path source = TestStore.directory();
    private final Path target = TestStore.directory();

    /** How many files were copied and skipped. */
    private record Copies(long copied, long skipped) {}

    /** {@code distcp -direct -update}, which compares checksums. */
    private Copies update(Path from, Path to) throws Exception {
        Configuration conf = TestStore.configure(new Configuration());
        conf.set("fs.tidegate.checksums", "true");
        conf.set("hadoop.tmp.dir", new File(folder, "tmp").toString());
        DistCpOptions options =
                new DistCpOptions.Builder(List.of(from), to)
                        .withSyncFolder(true)
                        .withDirectWrite(true)
                        .build();
        Counters counters = new DistCp(conf, options).execute().getCounters();
        return new Copies(
                counters.findCounter(Counter.COPY).getValue(),
                counters.findCounter(Counter.SKIP).getValue());
    }

    private static Map<String, byte[]> files() {
        Map<String, byte[]> files = new TreeMap<>();
        for (int number = 0; number < FILES; number++) {
            files.put("of/" + number, TestStore.bytes(300_000 + number));
        }
        return files;
    }

    private static void assertFiles(Map<String, byte[]> files, Path directory) throws Exception {
        FileSystem fs = TestStore.fileSystem();
        for (Map.Entry<String, byte[]> file : files.entrySet()) {
            assertArrayEquals(
                    file.getValue(), TestStore.read(fs, new Path(directory, file.getKey())));
        }
    }

    @Test
    void aDirectoryOfTheDiskIsCopied() throws Exception {
        File disk = new File(folder, "disk");
        for (Map.Entry<String, byte[]> file : files().entrySet()) {
            File to = new File(disk, file.getKey());
            to.getParentFile().mkdirs();
            Files.write(to.toPath(), file.getValue());
        }
        assertEquals(new Copies(FILES, 0), update(new Path(disk.toURI()), target));
        assertFiles(files(), target);
    }

    @Test
    void anUpdateCopiesWhatHasOtherBytes() throws Exception {
        FileSystem fs = TestStore.fileSystem();
        Map<String, byte[]> files = files();
        for (Map.Entry<String, byte[]> file : files.entrySet()) {
            TestStore.write(fs, new Path(source, file.getKey()), file.getValue());
        }
        assertEquals(new Copies(FILES, 0), update(source, target));
        assertFiles(files, target);
        assertEquals(new Copies(0, FILES), update(source, target));
        // As long as before.
        byte[] changed = files.get("of/1").clone();
        changed[1000] ^= 1;
        files.put("of/1", changed);
        TestStore.write(fs, new Path(source, "of/1"), changed);
        assertEquals(new Copies(1, FILES - 1), update(source, target));
        assertFiles(files, target);
    }
}
