package io.tidegate.hadoop;

import io.tidegate.ObjectInfo;
import io.tidegate.Options;
import io.tidegate.Reader;
import io.tidegate.TidegateException;
import io.tidegate.Writer;

import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** Copies objects, and replaces none. */
final class Copying {
    private static final Logger LOG = LoggerFactory.getLogger(Copying.class);

    /** How many bytes of an object are in the heap while they pass through this machine. */
    private static final int CHUNK = 1 << 20;

    private static final Options ABSENT = Options.of("create_only", "true");

    /** The attributes that {@link ObjectInfo#text} and the options of a write call by one name. */
    private static final List<String> ATTRIBUTES =
            List.of(
                    "content_type",
                    "cache_control",
                    "content_encoding",
                    "content_disposition",
                    "content_language",
                    "expires",
                    "storage_class");

    private Copying() {}

    /**
     * Copies an object with its attributes. Where the store makes no such copy, as Azure does not
     * of more than 256 MiB, the bytes pass through this machine; the copy then has no tags.
     *
     * @param from a place in the bucket of the source
     * @param to a place in the bucket of the copy
     * @return the copy, which the store has confirmed
     * @throws org.apache.hadoop.fs.FileAlreadyExistsException if there is an object at the target
     */
    static ObjectInfo copy(ObjectPath from, String key, ObjectPath to, String toKey)
            throws IOException {
        try {
            try {
                return from.store().copy(key, to.store(), toKey, ABSENT);
            } catch (TidegateException e) {
                if (e.kind() != TidegateException.Kind.UNSUPPORTED) {
                    throw e;
                }
                LOG.warn(
                        "{}: the bytes of {} pass through this machine, and its tags stay behind:"
                                + " {}",
                        from.path(),
                        key,
                        e.getMessage());
                return pass(from, key, to, toKey);
            }
        } catch (IOException e) {
            throw Failures.of(from.path(), e);
        }
    }

    private static ObjectInfo pass(ObjectPath from, String key, ObjectPath to, String toKey)
            throws IOException {
        ObjectInfo source = from.store().stat(key);
        Options unchanged = Options.none().and("if_unchanged", source);
        try (Reader reader = from.store().reader(key, unchanged);
                Writer writer = to.store().writer(toKey, attributes(source))) {
            ByteBuffer bytes = ByteBuffer.allocate(CHUNK);
            while (reader.read(bytes) >= 0) {
                writer.write(bytes.flip());
                bytes.clear();
            }
            return writer.finish();
        }
    }

    /** The options of a write that gives an object the attributes of another, and its size. */
    private static Options attributes(ObjectInfo source) {
        Options options = ABSENT;
        if (source.size().isPresent()) {
            options = options.and("exact_size", Long.toString(source.size().getAsLong()));
        }
        for (String name : ATTRIBUTES) {
            Optional<String> value = source.text(name);
            if (value.isPresent()) {
                options = options.and(name, value.get());
            }
        }
        for (Map.Entry<String, String> one : source.metadata().entrySet()) {
            options = options.and("metadata", one.getKey() + "=" + one.getValue());
        }
        return options;
    }
}
