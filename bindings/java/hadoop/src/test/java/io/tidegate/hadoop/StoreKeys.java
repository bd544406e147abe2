package io.tidegate.hadoop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.junit.jupiter.api.Test;

import java.io.IOException;
import java.util.List;

/** Keys that others have written, and that no path of Hadoop has. */
class StoreKeys {
    private final FileSystem fs = TestStore.fileSystem();
    private final Path root = TestStore.directory();

    StoreKeys() throws IOException {}

    @Test
    void areLeftOutOfListingsAndGoWithTheirDirectory() throws IOException {
        Path old = new Path(root, "old");
        ObjectPath in = new Buckets(TestStore.uri(), fs.getConf()).locate(root);
        List<String> odd = List.of("/b", "d//e");
        for (String name : odd) {
            in.store().put(in.prefix() + "old/" + name, new byte[1]);
        }
        TestStore.write(fs, new Path(old, "file"), "text");
        assertEquals(
                List.of("d", "file"),
                List.of(fs.listStatus(old)).stream()
                        .map(FileStatus::getPath)
                        .map(Path::getName)
                        .toList());
        assertEquals(new Path(old, "file"), fs.listFiles(old, true).next().getPath());
        assertEquals(1, fs.getContentSummary(old).getFileCount());
        assertTrue(fs.rename(old, new Path(root, "new")));
        for (String name : odd) {
            assertTrue(in.store().exists(in.prefix() + "new/" + name));
            assertFalse(in.store().exists(in.prefix() + "old/" + name));
        }
        assertTrue(fs.delete(root, true));
        assertEquals(0, in.store().list(in.prefix()).count());
    }
}
