package io.tidegate;

import java.io.IOException;

/**
 * What an upload has of one of its parts, from {@link PartsUpload#putPart}. It is a value, which
 * travels as JSON and never changes; it has no credentials.
 */
public final class PartReceipt {
    private final String json;
    private final int number;
    private final long size;

    PartReceipt(byte[] encoded) {
        Wire.Decoder from = new Wire.Decoder(encoded);
        json = from.text();
        number = (int) from.number();
        size = from.number();
    }

    /**
     * Reads the text of {@link #toJson}.
     *
     * @throws TidegateException of kind {@code INVALID_INPUT} if it is no receipt; the message
     *     shows nothing of the text
     */
    public static PartReceipt fromJson(String json) throws IOException {
        NativeLibrary.load();
        return new PartReceipt(Native.readReceipt(Wire.utf8(json)));
    }

    /** As JSON, of one line, which later versions of Tidegate read too. */
    public String toJson() {
        return json;
    }

    /** The number of the part, from 1. */
    public int number() {
        return number;
    }

    /** The size of the part, in bytes. */
    public long size() {
        return size;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof PartReceipt that && json.equals(that.json);
    }

    @Override
    public int hashCode() {
        return json.hashCode();
    }

    @Override
    public String toString() {
        return "PartReceipt of part " + number + " (" + size + " bytes)";
    }
}
