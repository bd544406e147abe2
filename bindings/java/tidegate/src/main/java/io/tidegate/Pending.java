package io.tidegate;

import java.io.IOException;

/**
 * An upload with all bytes at the store and nothing visible, from {@link Writer#prepare()}. Any
 * process on any machine publishes it with {@link Store#commit}, once in effect, or gives it up
 * with {@link Store#abandon}. Losing this object does neither.
 */
public final class Pending extends Unpublished {
    Pending(Wire.Decoder from) {
        super(from);
    }

    /**
     * Reads the text of {@link #toJson}.
     *
     * @throws TidegateException of kind {@code INVALID_INPUT} if it is no pending upload; the
     *     message shows nothing of the text
     */
    public static Pending fromJson(String json) throws IOException {
        NativeLibrary.load();
        return new Pending(new Wire.Decoder(Native.readPending(Wire.utf8(json))));
    }
}
