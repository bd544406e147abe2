package io.tidegate.hadoop;

import org.apache.hadoop.fs.BulkDelete;
import org.apache.hadoop.fs.BulkDeleteUtils;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.statistics.IOStatistics;

import java.io.IOException;
import java.util.Collection;
import java.util.List;
import java.util.Map;

/**
 * Deletes files by their paths, without a request that looks for them. A path of a directory is no
 * failure, and nothing is deleted for it.
 */
final class ObjectBulkDelete implements BulkDelete {
    /** As many keys as S3 deletes by one request. */
    private static final int PAGE = 1000;

    private final Path base;
    private final ObjectPath at;
    private final Buckets buckets;
    private final IOStatistics statistics;

    /**
     * @param base all paths are below it, or equal to it
     * @param at the place of the base
     */
    ObjectBulkDelete(Path base, ObjectPath at, Buckets buckets, IOStatistics statistics) {
        this.base = base;
        this.at = at;
        this.buckets = buckets;
        this.statistics = statistics;
    }

    @Override
    public int pageSize() {
        return PAGE;
    }

    @Override
    public Path basePath() {
        return base;
    }

    @Override
    public List<Map.Entry<Path, String>> bulkDelete(Collection<Path> paths) throws IOException {
        BulkDeleteUtils.validateBulkDeletePaths(paths, pageSize(), base);
        return Removal.deleteEach(at, buckets.locateAll(paths));
    }

    @Override
    public IOStatistics getIOStatistics() {
        return statistics;
    }

    @Override
    public void close() {}
}
