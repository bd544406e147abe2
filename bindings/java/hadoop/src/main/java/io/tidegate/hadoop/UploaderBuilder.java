package io.tidegate.hadoop;

import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.impl.MultipartUploaderBuilderImpl;

import java.util.Set;

/** Makes a {@link TidegateMultipartUploader}. Permissions, sizes and flags have no effect. */
final class UploaderBuilder
        extends MultipartUploaderBuilderImpl<TidegateMultipartUploader, UploaderBuilder> {
    private final TidegateFileSystem fs;
    private final Path base;
    private final Tree tree;
    private final Workers workers;

    UploaderBuilder(TidegateFileSystem fs, Path base, Tree tree, Workers workers) {
        super(fs, base);
        this.fs = fs;
        this.base = base;
        this.tree = tree;
        this.workers = workers;
    }

    @Override
    public UploaderBuilder getThisBuilder() {
        return this;
    }

    @Override
    public TidegateMultipartUploader build() {
        rejectUnknownMandatoryKeys(Set.of(), "for an uploader below " + base);
        return new TidegateMultipartUploader(fs, base, tree, workers);
    }
}
