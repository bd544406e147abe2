package io.tidegate;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/**
 * The encoding of what crosses the border to the native library, beside the bytes of objects:
 * numbers of eight bytes, the highest first, and texts in UTF-8 with their length before them, or
 * -1 where there is none.
 */
final class Wire {
    private Wire() {}

    /**
     * The text in UTF-8. A text that has no such form is refused: what stands for it could name
     * another object.
     */
    static byte[] utf8(String text) throws TidegateException {
        try {
            ByteBuffer encoded = StandardCharsets.UTF_8.newEncoder().encode(CharBuffer.wrap(text));
            byte[] bytes = new byte[encoded.remaining()];
            encoded.get(bytes);
            return bytes;
        } catch (CharacterCodingException e) {
            throw TidegateException.invalid(
                    "a text has half of a surrogate pair, and no form in UTF-8: " + text, e);
        }
    }

    static final class Encoder {
        private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();

        Encoder number(long number) {
            bytes.writeBytes(ByteBuffer.allocate(Long.BYTES).putLong(number).array());
            return this;
        }

        Encoder text(String text) throws TidegateException {
            if (text == null) {
                return number(-1);
            }
            byte[] encoded = utf8(text);
            number(encoded.length);
            bytes.writeBytes(encoded);
            return this;
        }

        byte[] bytes() {
            return bytes.toByteArray();
        }
    }

    static final class Decoder {
        private final ByteBuffer from;

        Decoder(byte[] from) {
            this.from = ByteBuffer.wrap(from);
        }

        boolean hasMore() {
            return from.hasRemaining();
        }

        long number() {
            return from.getLong();
        }

        /** A text, or null. */
        String text() {
            int length = (int) from.getLong();
            if (length == -1) {
                return null;
            }
            String text = new String(from.array(), from.position(), length, StandardCharsets.UTF_8);
            from.position(from.position() + length);
            return text;
        }

        /** Texts, with their number before them. */
        List<String> texts() {
            List<String> texts = new ArrayList<>();
            for (long rest = number(); rest > 0; rest--) {
                texts.add(text());
            }
            return texts;
        }
    }
}
