package io.tidegate.hadoop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FsShell;
import org.apache.hadoop.util.ToolRunner;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The settings of docs/HADOOP.md, with Hadoop's shell. */
class StoreGuide {
    /** The settings of the guide, and those of S3A's that lead to the test's store. */
    private static Configuration settings() throws IOException {
        String guide = Files.readString(Path.of("../../../docs/HADOOP.md"));
        Matcher block = Pattern.compile("(?s)```xml\\n(.*?)```").matcher(guide);
        assertTrue(block.find());
        Configuration conf = new Configuration();
        TestStore.configure(conf);
        conf.unset("fs.s3a.impl");
        conf.addResource(new ByteArrayInputStream(block.group(1).getBytes(StandardCharsets.UTF_8)));
        return conf;
    }

    /** What a command prints, which must succeed. */
    private static String shell(String... arguments) throws Exception {
        PrintStream before = System.out;
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        System.setOut(new PrintStream(printed, true, StandardCharsets.UTF_8));
        try {
            assertEquals(0, ToolRunner.run(settings(), new FsShell(), arguments));
        } finally {
            System.setOut(before);
        }
        return printed.toString(StandardCharsets.UTF_8);
    }

    @Test
    void filesGoThereAndBack(@TempDir Path folder) throws Exception {
        Path file = folder.resolve("file");
        Files.writeString(file, "text");
        String there = TestStore.directory().toString();
        shell("-mkdir", "-p", there);
        shell("-put", file.toString(), there + "/a");
        shell("-mv", there + "/a", there + "/b");
        assertEquals("text", shell("-cat", there + "/b"));
        shell("-get", there + "/b", folder.resolve("back").toString());
        assertEquals("text", Files.readString(folder.resolve("back")));
        shell("-rm", "-r", "-skipTrash", there);
        assertFalse(TestStore.fileSystem().exists(new org.apache.hadoop.fs.Path(there)));
    }
}
