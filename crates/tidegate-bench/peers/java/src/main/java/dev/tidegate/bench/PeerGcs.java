package dev.tidegate.bench;

import com.google.cloud.NoCredentials;
import com.google.cloud.storage.BlobInfo;
import com.google.cloud.storage.BlobWriteSession;
import com.google.cloud.storage.BlobWriteSessionConfig;
import com.google.cloud.storage.BlobWriteSessionConfigs;
import com.google.cloud.storage.Storage;
import com.google.cloud.storage.StorageOptions;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.WritableByteChannel;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Collectors;

/**
 * Uploads objects side by side through Google's Java client for Cloud Storage over gRPC, each from a producer of a
 * given rate, and prints how many seconds each took.
 */
public final class PeerGcs {
    private static final int PIECE = 1024 * 1024;

    /** No sleep is shorter: what a shorter one would really take depends on the machine's timers. */
    private static final double SHORTEST_SLEEP = 0.002;

    private static final Set<String> NAMES =
            Set.of("url", "bucket", "prefix", "sizes", "produce", "how", "chunk", "scratch");

    private final Storage storage;
    private final String bucket;
    private final ByteBuffer piece;

    private PeerGcs(Storage storage, String bucket) {
        this.storage = storage;
        this.bucket = bucket;
        byte[] bytes = new byte[PIECE];
        new Random(1).nextBytes(bytes);
        this.piece = ByteBuffer.wrap(bytes).asReadOnlyBuffer();
    }

    public static void main(String[] words) {
        // Or it warns that there is nowhere to log to, in every run.
        System.setProperty("slf4j.internal.verbosity", "ERROR");
        Job job = null;
        try {
            job = Job.parse(words);
        } catch (IllegalArgumentException wrong) {
            System.err.println("peer-gcs: " + wrong.getMessage());
            System.exit(2);
        }
        // Where one of the client's own threads fails, as for want of memory, an upload may wait for ever.
        Thread.setDefaultUncaughtExceptionHandler((thread, failure) -> fail(failure));
        try {
            List<Double> seconds = run(job);
            System.out.println(seconds.stream()
                    .map(each -> String.format(Locale.ROOT, "%.6f", each))
                    .collect(Collectors.joining(",", "{\"seconds\":[", "]}")));
        } catch (Throwable failure) {
            fail(failure);
        }
        // The client may leave threads behind that would keep the process up.
        System.exit(0);
    }

    private static void fail(Throwable failure) {
        try {
            System.err.println("peer-gcs: " + failure);
            for (Throwable cause = failure.getCause(); cause != null; cause = cause.getCause()) {
                System.err.println("  because of: " + cause);
            }
        } finally {
            // Not exit: what it does may need memory that there is none of.
            Runtime.getRuntime().halt(1);
        }
    }

    private static List<Double> run(Job job) throws Exception {
        // Nothing but the emulator is asked: no DirectPath, no metrics to Google, no metadata server for credentials.
        StorageOptions options = StorageOptions.grpc()
                .setHost(job.url)
                .setProjectId("bench")
                .setCredentials(NoCredentials.getInstance())
                .setAttemptDirectPath(false)
                .setEnableGrpcClientMetrics(false)
                .setBlobWriteSessionConfig(job.how)
                .build();
        try (Storage storage = options.getService()) {
            PeerGcs peer = new PeerGcs(storage, job.bucket);
            // Classes, the connection and the client's threads come with the first upload: it does not count.
            peer.upload(job.prefix + "warm", PIECE, Double.POSITIVE_INFINITY);
            return peer.uploadAll(job);
        }
    }

    /** Begins all uploads at once, each in a thread of its own. */
    private List<Double> uploadAll(Job job) throws Exception {
        CyclicBarrier all = new CyclicBarrier(job.sizes.size());
        ExecutorService threads = Executors.newFixedThreadPool(job.sizes.size());
        try {
            List<Future<Double>> uploads = new ArrayList<>();
            for (int i = 0; i < job.sizes.size(); i++) {
                String name = job.prefix + i;
                long size = job.sizes.get(i);
                uploads.add(threads.submit(() -> {
                    all.await();
                    return upload(name, size, job.produce);
                }));
            }
            List<Double> seconds = new ArrayList<>();
            for (int i = 0; i < job.sizes.size(); i++) {
                try {
                    seconds.add(uploads.get(i).get());
                } catch (ExecutionException failure) {
                    throw new IOException("upload of " + job.prefix + i + " failed", failure.getCause());
                }
            }
            return seconds;
        } finally {
            threads.shutdownNow();
        }
    }

    /** Seconds from before the session is opened, and so from the first byte, until the object is known to be there. */
    private double upload(String name, long size, double rate) throws Exception {
        long start = System.nanoTime();
        BlobWriteSession session = storage.blobWriteSession(BlobInfo.newBuilder(bucket, name).build());
        try (WritableByteChannel channel = session.open()) {
            double debt = 0;
            for (long left = size; left > 0; ) {
                ByteBuffer next = piece.duplicate().limit((int) Math.min(PIECE, left));
                debt = pause(debt + next.remaining() / rate);
                while (next.hasRemaining()) {
                    left -= channel.write(next);
                }
            }
        }
        long stored = session.getResult().get().getSize();
        if (stored != size) {
            throw new IOException(name + " has " + stored + " bytes where " + size + " were written");
        }
        return (System.nanoTime() - start) / 1e9;
    }

    /**
     * Pauses for what a producer owes, in seconds, and returns what it owes then: less than nothing where the pause was
     * too long.
     */
    private static double pause(double debt) throws InterruptedException {
        while (debt > SHORTEST_SLEEP) {
            long start = System.nanoTime();
            // Thread.sleep knows whole milliseconds only, in Java 17.
            LockSupport.parkNanos((long) (debt * 1e9));
            if (Thread.interrupted()) {
                throw new InterruptedException();
            }
            debt -= (System.nanoTime() - start) / 1e9;
        }
        return debt;
    }

    /** What the command line asks for. */
    private record Job(
            String url,
            String bucket,
            String prefix,
            List<Long> sizes,
            long produce,
            BlobWriteSessionConfig how) {

        static Job parse(String[] words) {
            Map<String, String> given = new HashMap<>();
            for (int i = 0; i < words.length; i += 2) {
                String name = words[i].startsWith("--") ? words[i].substring(2) : "";
                if (!NAMES.contains(name)) {
                    throw new IllegalArgumentException(words[i] + " is not an argument that is known");
                }
                if (i + 1 == words.length) {
                    throw new IllegalArgumentException(words[i] + " needs a value");
                }
                if (given.put(name, words[i + 1]) != null) {
                    throw new IllegalArgumentException(words[i] + " is given more than once");
                }
            }
            String url = text(given, "url");
            if (!url.startsWith("http://")) {
                throw new IllegalArgumentException("--url " + url + " does not begin with http://");
            }
            Job job = new Job(
                    url,
                    text(given, "bucket"),
                    text(given, "prefix"),
                    sizes(text(given, "sizes")),
                    number("produce", text(given, "produce"), 1, Long.MAX_VALUE),
                    how(given));
            if (!given.isEmpty()) {
                String name = given.keySet().iterator().next();
                throw new IllegalArgumentException("--" + name + " has no use with this --how");
            }
            return job;
        }

        private static BlobWriteSessionConfig how(Map<String, String> given) {
            String how = text(given, "how");
            return switch (how) {
                case "journal" -> BlobWriteSessionConfigs.journaling(List.of(Path.of(text(given, "scratch"))));
                // At least 256 KiB: the client takes no less.
                case "chunked" -> BlobWriteSessionConfigs.getDefault()
                        .withChunkSize((int) number("chunk", text(given, "chunk"), 256 * 1024, Integer.MAX_VALUE));
                default -> throw new IllegalArgumentException("--how " + how + " is neither journal nor chunked");
            };
        }

        private static String text(Map<String, String> given, String name) {
            String value = given.remove(name);
            if (value == null) {
                throw new IllegalArgumentException("--" + name + " is missing");
            }
            return value;
        }

        private static List<Long> sizes(String words) {
            List<Long> sizes = new ArrayList<>();
            for (String word : words.split(",", -1)) {
                sizes.add(number("sizes", word, 1, Long.MAX_VALUE));
            }
            return sizes;
        }

        private static long number(String name, String value, long least, long most) {
            String range = "--" + name + " " + value + " is not a whole number from " + least + " to " + most;
            try {
                long number = Long.parseLong(value);
                if (number < least || number > most) {
                    throw new IllegalArgumentException(range);
                }
                return number;
            } catch (NumberFormatException wrong) {
                throw new IllegalArgumentException(range, wrong);
            }
        }
    }
}
