package io.tidegate.hadoop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.tidegate.TidegateException;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.JobID;
import org.apache.hadoop.mapreduce.JobStatus;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.TaskAttemptID;
import org.apache.hadoop.mapreduce.TaskID;
import org.apache.hadoop.mapreduce.TaskType;
import org.apache.hadoop.mapreduce.lib.output.FileOutputFormat;
import org.apache.hadoop.mapreduce.lib.output.PathOutputCommitter;
import org.apache.hadoop.mapreduce.lib.output.PathOutputCommitterFactory;
import org.apache.hadoop.mapreduce.task.JobContextImpl;
import org.apache.hadoop.mapreduce.task.TaskAttemptContextImpl;
import org.junit.jupiter.api.function.Executable;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;

/** A job whose driver and tasks call the committer as MapReduce and Spark do. */
final class TestJob {
    static final String SUCCESS = "_SUCCESS";

    final Path out;
    final Configuration conf = TestStore.configure(new Configuration());
    final JobID id;
    private final Set<String> begun = ConcurrentHashMap.newKeySet();

    /** A job in a directory of its own. */
    TestJob() {
        this(TestStore.directory());
    }

    /** A job with settings: names, each with its value. */
    TestJob(Path out, String... settings) {
        this(out, new JobID(UUID.randomUUID().toString().replace("-", ""), 7), settings);
    }

    /** The same in each process that has this id. */
    TestJob(Path out, JobID id, String... settings) {
        this.out = out;
        this.id = id;
        conf.set(FileOutputFormat.OUTDIR, out.toString());
        conf.set(
                String.format(
                        PathOutputCommitterFactory.COMMITTER_FACTORY_SCHEME_PATTERN,
                        out.toUri().getScheme()),
                TidegateCommitterFactory.class.getName());
        for (int index = 0; index < settings.length; index += 2) {
            conf.set(settings[index], settings[index + 1]);
        }
    }

    FileSystem fs() throws IOException {
        return out.getFileSystem(conf);
    }

    JobContext context() {
        return new JobContextImpl(conf, id);
    }

    TaskAttemptContext context(int task, int attempt) {
        TaskID of = new TaskID(id, TaskType.MAP, task);
        return new TaskAttemptContextImpl(conf, new TaskAttemptID(of, attempt));
    }

    /** A driver that knows nothing of those before. */
    PathOutputCommitter driver() throws IOException {
        return PathOutputCommitterFactory.createCommitter(out, context(0, 0));
    }

    TestJob setUp() throws IOException {
        driver().setupJob(context());
        return this;
    }

    void commit() throws IOException {
        driver().commitJob(context());
    }

    void abort() throws IOException {
        driver().abortJob(context(), JobStatus.State.FAILED);
    }

    /** An attempt that is set up. */
    Attempt attempt(int task, int number) throws IOException {
        Attempt attempt = new Attempt(task, number);
        attempt.committer.setupTask(attempt.context);
        return attempt;
    }

    /** An attempt that has written one file and is committed. */
    Attempt committed(int task, String name, String text) throws IOException {
        Attempt attempt = attempt(task, 0);
        attempt.write(name, text);
        attempt.commit();
        return attempt;
    }

    /** One attempt of a task. */
    final class Attempt {
        final TaskAttemptContext context;
        final PathOutputCommitter committer;

        Attempt(int task, int number) throws IOException {
            context = context(task, number);
            committer = PathOutputCommitterFactory.createCommitter(out, context);
        }

        WorkPath workPath() {
            String task = context.getTaskAttemptID().getTaskID().toString();
            return new WorkPath(
                    out,
                    context.getJobID().toString(),
                    task,
                    context.getTaskAttemptID().toString());
        }

        Path path(String name) throws IOException {
            return new Path(committer.getWorkPath(), name);
        }

        FSDataOutputStream create(String name) throws IOException {
            begun.add(name);
            return fs().create(path(name), false);
        }

        void write(String name, String text) throws IOException {
            try (FSDataOutputStream stream = create(name)) {
                stream.writeBytes(text);
            }
        }

        void commit() throws IOException {
            committer.commitTask(context);
        }

        void abort() throws IOException {
            committer.abortTask(context);
        }
    }

    /** A call fails in the library, with a message that names something. */
    static void assertFails(TidegateException.Kind kind, String named, Executable call) {
        TidegateException failure = assertThrows(TidegateException.class, call);
        assertEquals(kind, failure.kind(), failure.getMessage());
        assertTrue(failure.getMessage().contains(named), failure.getMessage());
    }

    /** The texts of all files below the directory, by their names there. */
    Map<String, String> files() throws IOException {
        Map<String, String> texts = all(false);
        texts.remove(SUCCESS);
        return texts;
    }

    /** Whether the job, or another one of the directory, has left something in a work path. */
    boolean hasWorkPath() throws IOException {
        return !all(true).isEmpty();
    }

    /** Nothing is left of the job, and of others of the directory, but what they have published. */
    void assertEnded() throws IOException {
        assertFalse(hasWorkPath());
        assertEquals(Set.of(), sessions());
    }

    /**
     * The keys of the uploads below the directory, and of the files that the attempts have begun.
     */
    Set<String> sessions() throws IOException {
        Set<String> keys = new TreeSet<>(Sessions.below(out));
        for (String name : begun) {
            keys.addAll(Sessions.of(new Path(out, name)));
        }
        return keys;
    }

    boolean hasSuccess() throws IOException {
        return all(false).containsKey(SUCCESS);
    }

    private Map<String, String> all(boolean isInWorkPath) throws IOException {
        Map<String, String> texts = new TreeMap<>();
        try {
            RemoteIterator<LocatedFileStatus> files = fs().listFiles(out, true);
            while (files.hasNext()) {
                Path path = files.next().getPath();
                String name = out.toUri().relativize(path.toUri()).getPath();
                if (name.startsWith("__tidegate_") == isInWorkPath) {
                    texts.put(name, isInWorkPath ? "" : TestStore.text(fs(), path));
                }
            }
        } catch (FileNotFoundException e) {
            // There is no file, and so no directory.
        }
        return texts;
    }
}
