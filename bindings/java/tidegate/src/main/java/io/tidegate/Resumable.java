package io.tidegate;

import java.io.IOException;

/**
 * A point of an upload, from {@link Writer#persist()}: all bytes before it are at the store. Any
 * process on any machine goes on from it with {@link Store#resume}, or gives the upload up with
 * {@link Store#abandon}. The JSON has up to 4 KiB of the object's bytes.
 */
public final class Resumable extends Unpublished {
    Resumable(Wire.Decoder from) {
        super(from);
    }

    /**
     * Reads the text of {@link #toJson}.
     *
     * @throws TidegateException of kind {@code INVALID_INPUT} if it is no point of an upload; the
     *     message shows nothing of the text
     */
    public static Resumable fromJson(String json) throws IOException {
        NativeLibrary.load();
        return new Resumable(new Wire.Decoder(Native.readPoint(Wire.utf8(json))));
    }
}
