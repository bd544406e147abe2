package io.tidegate.hadoop;

import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.JobID;

import java.io.IOException;
import java.util.Arrays;
import java.util.List;

/**
 * The driver or a task of a job, for tests/java/test_committer.py, which kills it. It prints {@code
 * started} before its first request.
 */
final class CommitterProcess {
    private CommitterProcess() {}

    /** As {@code examples/job.rs}: {@code set-up|task|commit|abort OUT ID [TASK ATTEMPT FILES]}. */
    public static void main(String[] arguments) throws IOException {
        List<String> rest = Arrays.asList(arguments).subList(3, arguments.length);
        TestJob job =
                new TestJob(
                        new Path(arguments[1]),
                        new JobID("processes", 1),
                        TidegateCommitter.JOB_ID,
                        arguments[2]);
        job.driver();
        System.out.println("started");
        switch (arguments[0]) {
            case "set-up" -> job.setUp();
            case "task" -> write(job, number(rest.get(0)), number(rest.get(1)), rest.get(2));
            case "commit" -> job.commit();
            case "abort" -> job.abort();
            default -> throw new IllegalArgumentException("no such role: " + arguments[0]);
        }
    }

    /** The last number of a name. */
    private static int number(String name) {
        return Integer.parseInt(name.substring(name.lastIndexOf('-') + 1));
    }

    /** Writes the files of a task: rows that name the task, the file and their number. */
    private static void write(TestJob job, int task, int number, String files) throws IOException {
        TestJob.Attempt attempt = job.attempt(task, number);
        for (int file = 0; file < Integer.parseInt(files); file++) {
            try (FSDataOutputStream out = attempt.create("task-" + task + "-" + file + ".csv")) {
                for (int row = 0; row < 100; row++) {
                    out.writeBytes("task-" + task + "," + file + "," + row + "\n");
                }
            }
        }
        attempt.commit();
    }
}
