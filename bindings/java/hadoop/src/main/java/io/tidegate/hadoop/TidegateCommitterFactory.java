package io.tidegate.hadoop;

import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.lib.output.PathOutputCommitter;
import org.apache.hadoop.mapreduce.lib.output.PathOutputCommitterFactory;

import java.io.IOException;

/**
 * Makes the committer of an output directory. A setting {@code
 * mapreduce.outputcommitter.factory.scheme.SCHEME} names this class.
 */
public final class TidegateCommitterFactory extends PathOutputCommitterFactory {
    /** As Hadoop makes it. */
    public TidegateCommitterFactory() {}

    /**
     * {@inheritDoc} Sends nothing.
     *
     * @throws IOException if the output directory is not of a {@link TidegateFileSystem}
     */
    @Override
    public PathOutputCommitter createOutputCommitter(Path out, TaskAttemptContext context)
            throws IOException {
        return new TidegateCommitter(out, context);
    }
}
