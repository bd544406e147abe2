package io.tidegate;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledForJreRange;
import org.junit.jupiter.api.condition.JRE;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.io.File;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/** What holds for a whole JVM: each test runs one of {@link Programs}. */
class ProgramTest {
    @TempDir Path folder;

    private static final String CLASSES = System.getProperty("java.class.path");

    private static String library(String file) {
        return "-Dtidegate.library=" + file;
    }

    /** Runs a program with the library under test, and gives what it printed. */
    private String run(String option, String... arguments) throws Exception {
        return ended(
                List.of(library(System.getProperty("tidegate.library")), option),
                CLASSES,
                arguments);
    }

    /** The same with a library that panics and forks where a program wants it. */
    private String runWithTestLibrary(String... arguments) throws Exception {
        return ended(
                List.of(library(System.getenv("TIDEGATE_JAVA_TEST_LIBRARY"))), CLASSES, arguments);
    }

    private String ended(List<String> options, String classes, String... arguments)
            throws Exception {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        if (Runtime.version().feature() >= 24) {
            command.add("--enable-native-access=ALL-UNNAMED");
        }
        command.addAll(options);
        command.addAll(List.of("-cp", classes, "io.tidegate.Programs"));
        command.addAll(List.of(arguments));
        Path output = Files.createTempFile(folder, "output", "");
        Process process =
                new ProcessBuilder(command)
                        .redirectErrorStream(true)
                        .redirectOutput(output.toFile())
                        .start();
        boolean hasEnded = process.waitFor(120, TimeUnit.SECONDS);
        process.destroyForcibly();
        String printed = Files.readString(output);
        assertTrue(hasEnded, "it did not end: " + printed);
        assertEquals(0, process.exitValue(), printed);
        return printed;
    }

    @ParameterizedTest
    @ValueSource(strings = {"exit", "halt"})
    void anExitDiscards(String how) throws Exception {
        run("-ea", "exit", how);
        assertFalse(Servers.embedded().exists("exits/" + how));
    }

    @ParameterizedTest
    @ValueSource(strings = {"embedded", "minio", "http"})
    void anotherProcessPublishes(String server) throws Exception {
        Store store = Servers.open(server, "");
        String json = run("-ea", "prepare", server).strip();
        String key = server + "-of-another";
        assertFalse(store.exists(key));
        String printed = key + " (" + (6 << 20) + " bytes)\n";
        assertEquals(printed, run("-ea", "commit", server, json));
        assertEquals(printed, run("-ea", "commit", server, json));
        assertArrayEquals(Servers.bytes(6 << 20), store.get(key));
    }

    @Test
    void aJournaledSessionOutlivesItsProcess() throws Exception {
        run("-ea", "journal", folder.toString());
        Tidegate tide = Tidegate.shared(Options.of("journal", folder.toString()));
        UnfinishedUpload left = tide.recover().get(0);
        assertEquals(6 << 20, left.length());
        Store store = Servers.open(tide, "embedded", "");
        assertFalse(store.exists("killed-session"));
        try (Writer writer = ((Resumed.Continued) left.resume(store)).writer()) {
            writer.finish();
        }
        assertArrayEquals(Servers.bytes(6 << 20), store.get("killed-session"));
    }

    @Test
    void theEndOfMainWaitsForNoEngine() throws Exception {
        run("-ea", "return");
        assertFalse(Servers.embedded().exists("exits/return"));
    }

    @Test
    void theJvmFindsNoFault() throws Exception {
        String printed = run("-Xcheck:jni", "every");
        assertEquals(
                "NOT_FOUND\nevery/a\nevery/c\nevery/d\nNOT_FOUND\n268435456\n"
                        + ((3 << 20) + 100)
                        + "\n",
                printed);
    }

    @Test
    @EnabledForJreRange(min = JRE.JAVA_21)
    void virtualThreadsKeepNoCarrier() throws Exception {
        List<String> carriers =
                List.of(
                        library(System.getProperty("tidegate.library")),
                        "-Djdk.virtualThreadScheduler.parallelism=2",
                        "-Djdk.virtualThreadScheduler.maxPoolSize=2");
        String printed = ended(carriers, CLASSES, "virtual");
        assertEquals("all wait: true\nall ended: true\ninterrupted: 1000\n", printed);
    }

    @Test
    void aWrongLibraryGivesOneClearError() throws Exception {
        Path garbage = folder.resolve("garbage.so");
        Files.writeString(garbage, "no library");
        Path missing = folder.resolve("missing.so");
        // A library without our functions: one of the JVM's own.
        Path other = Path.of(System.getProperty("java.home"), "lib", "libzip.so");
        for (Path file : List.of(garbage, missing, other)) {
            // The JVM may print warnings of its own.
            List<String> lines =
                    ended(List.of(library(file.toString())), CLASSES, "load")
                            .lines()
                            .filter(line -> line.startsWith(TidegateException.class.getName()))
                            .toList();
            assertEquals(2, lines.size());
            assertEquals(lines.get(0), lines.get(1));
            String message = "the native library of Tidegate can't be loaded: " + file;
            assertTrue(lines.get(0).contains(message), lines.get(0));
            assertTrue(lines.get(0).contains("tidegate-natives"), lines.get(0));
        }
        String none = ended(List.of("-Djava.library.path=" + folder), CLASSES, "load");
        assertTrue(
                none.contains("add io.tidegate:tidegate-natives with the classifier linux-"), none);
    }

    @Test
    void twoClassLoadersGetOneClearError() throws Exception {
        String printed = run("-ea", "loaders");
        assertTrue(printed.contains("one class loader for all that use Tidegate"), printed);
    }

    @Test
    void aPanicIsAnException() throws Exception {
        List<String> told =
                runWithTestLibrary("panic", folder.toString())
                        .lines()
                        .filter(line -> line.startsWith("told: "))
                        .toList();
        String panicked = "told: PANIC the library panicked: a test wants this panic";
        assertEquals(List.of(panicked, panicked), told.subList(0, 2));
        // The writer has failed, and other calls go on.
        assertTrue(
                told.get(2).startsWith("told: CLOSED memory://panic/a: an earlier call"),
                told.get(2));
        assertEquals(List.of("told: false", "told: true"), told.subList(3, 5));
    }

    @Test
    void aForkedChildIsInert() throws Exception {
        String printed = runWithTestLibrary("fork");
        assertEquals("child: 0\nparent: true\n", printed);
    }

    @Test
    void theJarHasTheLibrary() throws Exception {
        String classes = System.getenv("TIDEGATE_JAVA_NATIVES") + File.pathSeparator + CLASSES;
        for (int times = 0; times < 2; times++) {
            String printed = ended(List.of("-Djava.io.tmpdir=" + folder), classes, "load");
            assertEquals("loaded\nloaded\n", printed);
        }
        List<Path> copies;
        try (Stream<Path> all = Files.list(folder)) {
            copies =
                    all.filter(path -> path.getFileName().toString().startsWith("tidegate-"))
                            .toList();
        }
        // The second program has used the copy of the first.
        assertEquals(1, copies.size());
        Path copy = copies.get(0).resolve(System.mapLibraryName("tidegate_java"));
        try (FileChannel cut = FileChannel.open(copy, StandardOpenOption.WRITE)) {
            cut.truncate(1000);
        }
        assertEquals(
                "loaded\nloaded\n", ended(List.of("-Djava.io.tmpdir=" + folder), classes, "load"));
        Files.setPosixFilePermissions(copies.get(0), PosixFilePermissions.fromString("rwxrwxrwx"));
        String printed = ended(List.of("-Djava.io.tmpdir=" + folder), classes, "load");
        assertTrue(printed.contains("is not a directory of this user alone"), printed);
    }
}
