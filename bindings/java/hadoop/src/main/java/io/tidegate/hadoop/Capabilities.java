package io.tidegate.hadoop;

import org.apache.hadoop.fs.CommonPathCapabilities;
import org.apache.hadoop.fs.Options.CreateFileOptionKeys;

import java.util.Locale;

/** What every path of the file system can do. */
final class Capabilities {
    private Capabilities() {}

    /** Whether a capability of {@link CommonPathCapabilities} is there. */
    static boolean ofPaths(String capability) {
        return switch (capability.toLowerCase(Locale.ROOT)) {
            case CommonPathCapabilities.ABORTABLE_STREAM,
                    CommonPathCapabilities.BULK_DELETE,
                    CommonPathCapabilities.ETAGS_AVAILABLE,
                    CommonPathCapabilities.FS_CHECKSUMS,
                    CommonPathCapabilities.VIRTUAL_BLOCK_LOCATIONS ->
                    true;
            default -> ofConditions(capability);
        };
    }

    /** Whether a capability is a condition of a write. */
    static boolean ofConditions(String capability) {
        return switch (capability.toLowerCase(Locale.ROOT)) {
            case CreateFileOptionKeys.FS_OPTION_CREATE_CONDITIONAL_OVERWRITE,
                    CreateFileOptionKeys.FS_OPTION_CREATE_CONDITIONAL_OVERWRITE_ETAG ->
                    true;
            default -> false;
        };
    }
}
