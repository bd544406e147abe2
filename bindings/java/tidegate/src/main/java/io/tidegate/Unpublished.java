package io.tidegate;

import java.time.Instant;
import java.util.Optional;

/**
 * An upload that is not visible, and that any process can end: a {@link Pending} one, or a {@link
 * Resumable} point of one. It is a value, which travels as JSON and never changes.
 *
 * <p>The JSON has no credentials. But with {@code create_only} or {@code replaces} on Google Cloud
 * Storage it has the address of the upload, and everyone who knows the address can write to the
 * upload: keep it as secret as a password.
 */
public abstract sealed class Unpublished permits Pending, Resumable {
    private final String json;
    private final String url;
    private final String key;
    private final long size;
    private final String checksumAlgorithm;
    private final String checksum;
    private final Instant until;
    private final String warning;

    Unpublished(Wire.Decoder from) {
        json = from.text();
        url = from.text();
        key = from.text();
        size = from.number();
        checksumAlgorithm = from.text();
        checksum = from.text();
        until = Instant.ofEpochSecond(from.number());
        warning = from.text();
    }

    /** As JSON, of one line, which later versions of Tidegate read too. */
    public String toJson() {
        return json;
    }

    /** The URL of the bucket, for {@link Tidegate#open(String)}. */
    public String url() {
        return url;
    }

    /** The key of the object to be, in its bucket: the prefix of the store is part of it. */
    public String key() {
        return key;
    }

    /** How many bytes of the object the store has: all of them, or those before the point. */
    public long size() {
        return size;
    }

    /** What {@link #checksum} is: {@code crc64nvme} or {@code crc32c}. */
    public String checksumAlgorithm() {
        return checksumAlgorithm;
    }

    /** The checksum of these bytes, in base64. */
    public String checksum() {
        return checksum;
    }

    /** When its lifetime ends: no sweep ends the upload before. */
    public Instant until() {
        return until;
    }

    /**
     * Why the store may end the upload before its lifetime, known only to the process that made
     * this: it was logged there as a warning, too.
     */
    public Optional<String> warning() {
        return Optional.ofNullable(warning);
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Unpublished that && json.equals(that.json);
    }

    @Override
    public int hashCode() {
        return json.hashCode();
    }

    /** Without what is secret. */
    @Override
    public String toString() {
        return getClass().getSimpleName() + " " + url + "/" + key + " (" + size + " bytes)";
    }
}
