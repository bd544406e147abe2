package io.tidegate;

import java.time.Instant;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;

/** An object as a store describes it. It never changes. */
public final class ObjectInfo {
    private final String key;
    private final long size;
    private final long modified;
    private final String etag;
    private final String version;
    private final Map<String, String> texts;
    private final Map<String, String> metadata;

    private ObjectInfo(Wire.Decoder from) {
        key = from.text();
        size = from.number();
        modified = from.number();
        etag = from.text();
        version = from.text();
        texts = pairs(from);
        metadata = pairs(from);
    }

    static ObjectInfo of(Wire.Decoder from) {
        return new ObjectInfo(from);
    }

    static ObjectInfo of(Call.Reply reply) {
        return of(new Wire.Decoder(reply.payload()));
    }

    /** Empty where a call gives no object. */
    static Optional<ObjectInfo> ofOptional(Call.Reply reply) {
        return Optional.ofNullable(reply.payload()).map(payload -> of(new Wire.Decoder(payload)));
    }

    private static Map<String, String> pairs(Wire.Decoder from) {
        long count = from.number();
        Map<String, String> pairs = new LinkedHashMap<>();
        for (long pair = 0; pair < count; pair++) {
            pairs.put(from.text(), from.text());
        }
        return Map.copyOf(pairs);
    }

    /** As much as tells its contents from others'. */
    void encode(Wire.Encoder to) throws TidegateException {
        to.text(key).number(size).text(etag).text(version);
    }

    long sizeOrMinusOne() {
        return size;
    }

    /** The key within the store. */
    public String key() {
        return key;
    }

    /** The size in bytes. Some stores leave it out of listings; {@link Store#stat} gives it. */
    public OptionalLong size() {
        return size < 0 ? OptionalLong.empty() : OptionalLong.of(size);
    }

    /** When the store last changed it, to the millisecond, where the store says so. */
    public Optional<Instant> lastModified() {
        return modified == Long.MIN_VALUE
                ? Optional.empty()
                : Optional.of(Instant.ofEpochMilli(modified));
    }

    /** The tag of its content, which other content does not have. */
    public Optional<String> etag() {
        return Optional.ofNullable(etag);
    }

    /** Its version, where the store has versions: Google's generation among them. */
    public Optional<String> version() {
        return Optional.ofNullable(version);
    }

    /**
     * A property as text, where the store says it: {@code crc64nvme}, {@code crc32c} (both in
     * base64), {@code content_type}, {@code cache_control}, {@code content_encoding}, {@code
     * content_disposition}, {@code content_language}, {@code expires}, {@code storage_class},
     * {@code encryption}.
     */
    public Optional<String> text(String name) {
        return Optional.ofNullable(texts.get(name));
    }

    /** User metadata, with names in lower case. Listings have none. */
    public Map<String, String> metadata() {
        return metadata;
    }

    @Override
    public String toString() {
        return key + (size < 0 ? "" : " (" + size + " bytes)");
    }
}
