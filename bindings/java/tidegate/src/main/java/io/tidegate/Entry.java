package io.tidegate;

import java.util.Optional;

/**
 * An entry of a listing.
 *
 * @param type what it is
 * @param key its key, relative to the store
 * @param object its description, if it is an object
 */
public record Entry(Type type, String key, Optional<ObjectInfo> object) {
    /** What an entry is. */
    public enum Type {
        /** An object. */
        OBJECT,
        /** A prefix that ends with {@code /}, of a listing that is not recursive. */
        PREFIX,
        /** A name that is no object, such as a socket on a disk. */
        OTHER
    }

    static Entry of(Wire.Decoder from) {
        long type = from.number();
        if (type == 0) {
            ObjectInfo object = ObjectInfo.of(from);
            return new Entry(Type.OBJECT, object.key(), Optional.of(object));
        }
        return new Entry(type == 1 ? Type.PREFIX : Type.OTHER, from.text(), Optional.empty());
    }
}
