package io.tidegate.hadoop;

import io.tidegate.ObjectInfo;

/**
 * What tells the object of a key from another object that replaces it.
 *
 * @param etag the tag of its content; null if the store gives none
 * @param version its version; null if the store gives none
 */
record Identity(String etag, String version) {
    static Identity of(ObjectInfo object) {
        return new Identity(object.etag().orElse(null), object.version().orElse(null));
    }

    /**
     * Whether both are of one object: they share a tag or a version, and differ in neither. An
     * object with neither is never known again.
     */
    boolean isSame(Identity other) {
        boolean isShared = false;
        if (etag != null && other.etag != null) {
            if (!etag.equals(other.etag)) {
                return false;
            }
            isShared = true;
        }
        if (version != null && other.version != null) {
            if (!version.equals(other.version)) {
                return false;
            }
            isShared = true;
        }
        return isShared;
    }
}
