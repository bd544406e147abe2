package io.tidegate;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;

/**
 * Pending uploads of one bucket that are published together, with a <em>pointer</em>: the key by
 * which readers find them. Readers that begin with the pointer see all objects or none. It travels
 * as JSON and never changes; {@link Unpublished} says who may read that.
 */
public final class Manifest {
    private final String json;
    private final String url;
    private final String pointer;
    private final List<Pending> pending;

    Manifest(byte[] encoded) {
        Wire.Decoder from = new Wire.Decoder(encoded);
        json = from.text();
        url = from.text();
        pointer = from.text();
        List<Pending> uploads = new ArrayList<>();
        while (from.hasMore()) {
            uploads.add(new Pending(from));
        }
        pending = List.copyOf(uploads);
    }

    /**
     * The set of these uploads.
     *
     * @param pointer a key in the bucket
     * @throws TidegateException of kind {@code INVALID_INPUT} if there is no upload, or two are of
     *     one key, or of different buckets
     */
    public static Manifest of(String pointer, List<Pending> pending) throws IOException {
        NativeLibrary.load();
        Wire.Encoder uploads = new Wire.Encoder();
        for (Pending each : pending) {
            uploads.text(each.toJson());
        }
        return new Manifest(Native.manifest(Wire.utf8(pointer), uploads.bytes()));
    }

    /**
     * Reads the text of {@link #toJson}.
     *
     * @throws TidegateException of kind {@code INVALID_INPUT} if it is no manifest
     */
    public static Manifest fromJson(String json) throws IOException {
        NativeLibrary.load();
        return new Manifest(Native.readManifest(Wire.utf8(json)));
    }

    /** As JSON, of one line, which later versions of Tidegate read too. */
    public String toJson() {
        return json;
    }

    /** The URL of the bucket. */
    public String url() {
        return url;
    }

    /** The key, in the bucket, of the object by which readers find the set. */
    public String pointer() {
        return pointer;
    }

    /** The uploads of the set. */
    public List<Pending> pending() {
        return pending;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Manifest that && json.equals(that.json);
    }

    @Override
    public int hashCode() {
        return json.hashCode();
    }

    /** Without what is secret. */
    @Override
    public String toString() {
        return "Manifest " + url + "/" + pointer + " of " + pending.size();
    }
}
