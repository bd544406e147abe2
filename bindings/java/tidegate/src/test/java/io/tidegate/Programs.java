package io.tidegate;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.io.OutputStream;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Programs that {@link ProgramTest} runs, each in a JVM of its own. Each prints what it was to
 * show.
 */
final class Programs {
    private Programs() {}

    public static void main(String[] arguments) throws Exception {
        switch (arguments[0]) {
            case "exit" -> exit(arguments[1]);
            case "return" -> write(Servers.embedded(), "exits/return");
            case "every" -> every();
            case "virtual" -> virtual();
            case "load" -> load();
            case "loaders" -> loaders();
            case "panic" -> panic(arguments[1]);
            case "fork" -> fork();
            case "prepare" -> prepare(arguments[1]);
            case "commit" -> commit(arguments[1], arguments[2]);
            case "journal" -> journal(arguments[1]);
            default -> throw new IllegalArgumentException(arguments[0]);
        }
    }

    private static Object write(Store store, String key) throws IOException {
        OutputStream stream = store.writer(key).asOutputStream();
        stream.write(Servers.bytes(20 << 20));
        return stream;
    }

    /** Ends with an open stream. */
    private static void exit(String how) throws IOException {
        Object open = write(Servers.embedded(), "exits/" + how);
        if (how.equals("halt")) {
            Runtime.getRuntime().halt(0);
        }
        System.exit(open == null ? 1 : 0);
    }

    /** Every kind of native call, for a JVM that checks what the library does. */
    private static void every() throws Exception {
        Store store = Servers.embedded();
        byte[] bytes = Servers.bytes(3 << 20);
        try (Writer writer = store.writer("every/a")) {
            writer.write(bytes);
            writer.write(ByteBuffer.allocateDirect(100));
            writer.finish();
        }
        store.writer("every/b").abort();
        store.put("every/c", new byte[10]);
        store.copy("every/c", "every/d");
        ObjectInfo object = store.stat("every/a");
        try (Reader reader = store.reader("every/a")) {
            reader.read(ByteBuffer.allocate(10));
            reader.read(ByteBuffer.allocateDirect(10));
            reader.read(7, ByteBuffer.allocate(10));
            List<Range> ranges = new ArrayList<>();
            for (int number = 0; number < 500; number++) {
                ranges.add(new Range(number * 1000L, ByteBuffer.allocateDirect(10)));
            }
            reader.readRanges(ranges);
        }
        for (String key : List.of("every/nothing", "every/d")) {
            try {
                store.get(key);
            } catch (TidegateException e) {
                System.out.println(e.kind());
            }
        }
        store.list("every/").forEach(entry -> System.out.println(entry.key()));
        store.rename("every/d", "every/e");
        store.deleteAll(List.of("every/e", "x".repeat(5000)));
        store.find("every/e");
        Path file = Files.createTempFile("tidegate-every", "");
        store.upload(file, "every/f");
        store.download("every/f", file);
        Files.delete(file);
        store.delete("every/f");
        every(store);
        Tidegate.shared().waitForAborts(Duration.ofSeconds(60));
        System.out.println(object.size().getAsLong());
    }

    private static void every(Store store) throws Exception {
        Writer points = store.writer("every/points");
        points.write(new byte[10]);
        Resumable point = Resumable.fromJson(points.persist().toJson());
        points.close();
        store.forget(point);
        store.resume(point).abort();
        store.abandon(point);
        Pending pending = store.writer("every/pending").prepare(Duration.ofHours(1));
        Manifest manifest = Manifest.of("every/pointer", List.of(pending));
        store.commitAll(Manifest.fromJson(manifest.toJson()));
        store.rollForward("every/pointer");
        store.commit(pending);
        store.abandonAll(store.prepareAll("every/set", List.of(store.writer("every/a"))));
        try {
            store.abandonSet("every/set");
        } catch (TidegateException e) {
            System.out.println(e.kind());
        }
        Path journal = Files.createTempDirectory("tidegate-every");
        Tidegate tide = Tidegate.shared(Options.of("journal", journal.toString()));
        for (String key : List.of("goes on", "aborted", "forgotten")) {
            WriteSessionConfig journaling = WriteSessionConfigs.journaling(List.of(journal));
            Store journaled = Tidegate.shared(Options.none(), journaling).open("memory://every");
            try (Writer writer = journaled.writer(key, Options.of("strategy", "journal"))) {
                writer.write(new byte[10]);
            }
            tide.waitForAborts(Duration.ofSeconds(60));
            UnfinishedUpload left = tide.recover().get(0);
            switch (key) {
                case "goes on" -> ((Resumed.Continued) left.resume(journaled)).writer().finish();
                case "aborted" -> left.abort();
                default -> left.forget();
            }
        }
        Files.delete(journal);
        System.out.println(tide.usage().total());
        store.deleteAll(List.of("every/pending", "every/pointer")).orThrow();
    }

    /** 1,000 virtual threads wait at once on the two carriers that the parent allows. */
    private static void virtual() throws Exception {
        int count = 1000;
        Store store = Servers.embedded();
        ObjectInfo held = store.put("hold-get", new byte[10]);
        CountDownLatch waiting = new CountDownLatch(count);
        CountDownLatch ended = new CountDownLatch(count);
        AtomicInteger interrupted = new AtomicInteger();
        List<Thread> threads = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            int kind = number % 4;
            Runnable call =
                    () -> {
                        waiting.countDown();
                        try {
                            switch (kind) {
                                case 0 -> store.put("hold-put", new byte[1]);
                                case 1 -> store.writer("hold-put").finish();
                                case 2 -> store.reader(held).read(0, ByteBuffer.allocate(1));
                                default -> store.get("hold-get");
                            }
                        } catch (InterruptedIOException
                                | java.nio.channels.ClosedByInterruptException e) {
                            interrupted.incrementAndGet();
                        } catch (IOException e) {
                            e.printStackTrace(System.out);
                        }
                        ended.countDown();
                    };
            // Java 17, which this is compiled for, has none.
            threads.add(
                    (Thread)
                            Thread.class
                                    .getMethod("startVirtualThread", Runnable.class)
                                    .invoke(null, call));
        }
        System.out.println("all wait: " + waiting.await(60, TimeUnit.SECONDS));
        for (Thread thread : threads) {
            thread.interrupt();
        }
        System.out.println("all ended: " + ended.await(60, TimeUnit.SECONDS));
        System.out.println("interrupted: " + interrupted);
    }

    /** Twice, because the second failure of a class's initialization is another one. */
    private static void load() {
        for (int times = 0; times < 2; times++) {
            try {
                Tidegate.shared();
                System.out.println("loaded");
            } catch (IOException e) {
                System.out.println(e);
            }
        }
    }

    /** Loads the classes twice, as two applications in one server do. */
    private static void loaders() throws Exception {
        Tidegate.shared();
        URL classes = Tidegate.class.getProtectionDomain().getCodeSource().getLocation();
        try (URLClassLoader other = new URLClassLoader(new URL[] {classes}, null)) {
            other.loadClass("io.tidegate.Tidegate").getMethod("shared").invoke(null);
        } catch (java.lang.reflect.InvocationTargetException e) {
            System.out.println(e.getCause().getMessage());
        }
    }

    private interface Work {
        void run() throws IOException;
    }

    private static void panic(String journal) throws Exception {
        Store store = Tidegate.shared(Options.of("journal", journal)).open("memory://panic");
        Writer writer = store.writer("a");
        TestLibrary.panicNext(1);
        tell(() -> writer.write(new byte[10]));
        // With a journal a write waits, in a task.
        Writer journaled = store.writer("a", Options.of("strategy", "journal"));
        TestLibrary.panicNext(2);
        tell(() -> journaled.write(new byte[10]));
        tell(journaled::finish);
        System.out.println("told: " + store.exists("a"));
        store.put("b", new byte[1]);
        System.out.println("told: " + store.exists("b"));
    }

    private static void tell(Work work) throws IOException {
        try {
            work.run();
        } catch (TidegateException e) {
            System.out.println("told: " + e.kind() + " " + e.getMessage());
        }
    }

    /** Prints what another process is to publish, and ends as a killed process does. */
    private static void prepare(String server) throws IOException {
        Writer writer = Servers.open(server, "").writer(server + "-of-another");
        writer.write(Servers.bytes(6 << 20));
        System.out.println(writer.prepare().toJson());
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static void commit(String server, String json) throws IOException {
        System.out.println(Servers.open(server, "").commit(Pending.fromJson(json)));
    }

    /** Ends as a killed process does, in the middle of a journaled session. */
    private static void journal(String directory) throws IOException {
        Tidegate tide =
                Tidegate.shared(
                        Options.none(),
                        WriteSessionConfigs.journaling(List.of(Path.of(directory))));
        Store store = Servers.open(tide, "embedded", "");
        store.session("killed-session").open().write(ByteBuffer.wrap(Servers.bytes(6 << 20)));
        Runtime.getRuntime().halt(0);
    }

    private static void fork() throws Exception {
        Store store = Servers.embedded();
        long writer = Call.await(store.handle(), Programs::forked).value();
        System.out.println("child: " + TestLibrary.forkAndFree(writer));
        Handle handle = new Handle(writer);
        Call.await(handle, Native::finish);
        System.out.println("parent: " + store.exists("forked"));
    }

    private static void forked(long store, long token) throws TidegateException {
        Native.openWriter(store, token, Wire.utf8("forked"), new byte[0]);
    }
}
