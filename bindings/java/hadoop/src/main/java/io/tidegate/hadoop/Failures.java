package io.tidegate.hadoop;

import io.tidegate.TidegateException;

import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathIOException;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.nio.channels.ClosedByInterruptException;
import java.nio.file.AccessDeniedException;

/**
 * Failures of the library, as the types that callers of Hadoop catch. The cause is the library's.
 */
final class Failures {
    private Failures() {}

    /** The failure as Hadoop has it; the same one if Hadoop has no type for it. */
    static IOException of(Path path, IOException failure) {
        if (failure instanceof ClosedByInterruptException) {
            return caused(new InterruptedIOException("interrupted: " + path), failure);
        }
        if (!(failure instanceof TidegateException known)) {
            return failure;
        }
        String message = known.getMessage();
        return switch (known.kind()) {
            case NOT_FOUND, NO_BUCKET -> caused(new FileNotFoundException(message), known);
            case ALREADY_EXISTS -> caused(new FileAlreadyExistsException(message), known);
            case PERMISSION_DENIED ->
                    caused(new AccessDeniedException(path.toString(), null, message), known);
            case REPLACED -> new PathIOException(path.toString(), message, known);
            default -> failure;
        };
    }

    /** There is nothing at this path. */
    static FileNotFoundException missing(Path path) {
        return new FileNotFoundException("there is no file and no directory at " + path);
    }

    private static <T extends IOException> T caused(T failure, IOException cause) {
        failure.initCause(cause);
        return failure;
    }
}
