package io.tidegate.hadoop;

import io.tidegate.Store;
import io.tidegate.Tidegate;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathIOException;

import java.io.IOException;
import java.net.URI;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.locks.ReentrantLock;

/**
 * The buckets of one file system: the bucket that its URI names, or, for {@code
 * tg://s3/bucket/key}, all buckets of a dialect. A bucket is opened when a path first names it.
 */
final class Buckets {
    /** The scheme whose paths begin with the bucket. */
    static final String TIDEGATE = "tg";

    private final URI uri;
    private final Configuration conf;
    private final Dialect dialect;
    private final boolean isInPath;
    private final ReentrantLock lock = new ReentrantLock();
    private final Map<String, Bucket> opened = new HashMap<>();

    /**
     * @param uri scheme and authority of the file system
     * @throws IllegalArgumentException if the URI names no store
     */
    Buckets(URI uri, Configuration conf) {
        this.uri = uri;
        this.conf = conf;
        isInPath = uri.getScheme().equalsIgnoreCase(TIDEGATE);
        if (uri.getAuthority() == null) {
            throw new IllegalArgumentException(
                    uri + " has no authority: write SCHEME://BUCKET/KEY, or tg://s3/BUCKET/KEY");
        }
        dialect = Dialect.of(isInPath ? uri.getAuthority() : uri.getScheme());
    }

    /** Whether the path is above all buckets: {@code tg://s3/}. */
    boolean isAbove(Path qualified) {
        return isInPath && qualified.isRoot();
    }

    /**
     * The bucket and the key of a path.
     *
     * @param qualified a path with scheme and authority
     * @throws PathIOException if the path names no bucket
     */
    ObjectPath locate(Path qualified) throws IOException {
        String path = qualified.toUri().getPath();
        String key = path.startsWith("/") ? path.substring(1) : path;
        if (!isInPath) {
            return new ObjectPath(open(uri.getAuthority(), "/"), key);
        }
        int end = key.indexOf('/');
        String bucket = end < 0 ? key : key.substring(0, end);
        if (bucket.isEmpty()) {
            throw new PathIOException(
                    qualified.toString(), "the path names no bucket: write tg://s3/BUCKET/KEY");
        }
        return new ObjectPath(open(bucket, "/" + bucket), end < 0 ? "" : key.substring(end + 1));
    }

    /** The places of paths, with the paths. */
    Map<Path, ObjectPath> locateAll(Collection<Path> qualified) throws IOException {
        Map<Path, ObjectPath> places = new LinkedHashMap<>();
        for (Path path : qualified) {
            places.put(path, locate(path));
        }
        return places;
    }

    private Bucket open(String authority, String path) throws IOException {
        lock.lock();
        try {
            Bucket known = opened.get(authority);
            if (known != null) {
                return known;
            }
            Path root = new Path(uri.getScheme(), uri.getAuthority(), path);
            // Of container@account the settings have the container.
            String name = authority.substring(0, (authority + "@").indexOf('@'));
            Settings settings = Settings.of(conf, dialect, name);
            Bucket bucket;
            try {
                Store store =
                        Tidegate.shared(settings.engine())
                                .open(dialect.url(authority), settings.store());
                bucket = new Bucket(store, settings.write(), root);
            } catch (IOException e) {
                throw Failures.of(root, e);
            }
            opened.put(authority, bucket);
            return bucket;
        } finally {
            lock.unlock();
        }
    }
}
