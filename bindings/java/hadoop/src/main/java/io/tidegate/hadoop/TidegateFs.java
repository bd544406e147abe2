package io.tidegate.hadoop;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.MultipartUploaderBuilder;
import org.apache.hadoop.fs.Path;

import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;

/** The same file system for {@link org.apache.hadoop.fs.FileContext}. */
public final class TidegateFs extends DelegateToFileSystem {
    /** As Hadoop makes it, for a setting {@code fs.AbstractFileSystem.SCHEME.impl}. */
    public TidegateFs(URI uri, Configuration conf) throws IOException, URISyntaxException {
        // Hadoop would want a port if it were to require the authority, which the file system does.
        super(uri, new TidegateFileSystem(), conf, uri.getScheme(), false);
    }

    @Override
    public MultipartUploaderBuilder<?, ?> createMultipartUploader(Path base) throws IOException {
        return fsImpl.createMultipartUploader(base);
    }
}
