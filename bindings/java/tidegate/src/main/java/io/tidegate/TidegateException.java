package io.tidegate;

import java.io.IOException;
import java.nio.file.AccessDeniedException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.NoSuchFileException;
import java.time.Duration;
import java.util.Locale;
import java.util.Optional;

/**
 * A call that failed. The message is one sentence for people: it names the object, the operation,
 * the attempts, and what to do. {@link #kind()} is for programs.
 *
 * <p>Where {@code java.nio.file} has a type for the failure, the {@link #getCause() cause} is of
 * that type: {@link NoSuchFileException}, {@link FileAlreadyExistsException} or {@link
 * AccessDeniedException}.
 */
public final class TidegateException extends IOException {
    private static final long serialVersionUID = 1;

    /** What kind of failure it is. Later versions may have more. */
    public enum Kind {
        /** There is no object of this key. */
        NOT_FOUND,
        /** There is no bucket or root directory of this name. */
        NO_BUCKET,
        /** An object exists there, and {@code create_only} was set. Nothing was changed. */
        ALREADY_EXISTS,
        /** The bucket that was to be removed has objects. */
        NOT_EMPTY,
        /**
         * The key has another object than the one that was being read or copied, or that was to be
         * replaced.
         */
        REPLACED,
        /** The credentials do not allow the operation. */
        PERMISSION_DENIED,
        /** There are no usable credentials. */
        CREDENTIALS,
        /** The clocks of this machine and the store are too far apart. */
        CLOCK_SKEW,
        /** An argument or an option is wrong. */
        INVALID_INPUT,
        /** The object is larger than the store or the memory budget allows. */
        TOO_LARGE,
        /** The source of the bytes failed, a spool directory among them. */
        SOURCE,
        /** The store asked for fewer requests for longer than the retries last. */
        THROTTLED,
        /** There was no answer in time, in any attempt. */
        TIMEOUT,
        /** The store or the network failed, in all attempts. */
        UNAVAILABLE,
        /** The endpoint is no object store. */
        NOT_A_STORE,
        /**
         * The bytes at the store are not those that were sent, or those received are not those at
         * the store.
         */
        INTEGRITY,
        /** The store can't say whether the object was published: look with {@link Store#stat}. */
        UNCERTAIN,
        /** A disk is full. */
        NO_SPACE,
        /** The wait for memory could not end. */
        STARVED,
        /** The writer took no byte for longer than its idle limit. */
        IDLE,
        /** The upload session is gone, or has lost parts. */
        SESSION_LOST,
        /** The writer or reader failed, or was finished, aborted or closed before. */
        CLOSED,
        /** This store can't do that. */
        UNSUPPORTED,
        /**
         * The native library has a bug, and panicked. What the call was of has failed; others go
         * on.
         */
        PANIC,
        /** This process was forked from the one whose JVM made the object. */
        FORKED,
        /** The call was cancelled. Calls report that as exceptions of the JDK. */
        CANCELLED,
        /** The native library can't be loaded, or is not the one of these classes. */
        NATIVE_LIBRARY,
        /** A kind of a later version of the native library. */
        OTHER
    }

    private final Kind kind;
    private final String operation;
    private final String object;
    private final String remedy;
    private final int attempts;
    private final Duration elapsed;
    private final boolean isUnreachable;

    private TidegateException(
            Kind kind,
            String message,
            Throwable cause,
            String operation,
            String object,
            String remedy,
            int attempts,
            Duration elapsed,
            boolean isUnreachable) {
        super(message, cause);
        this.kind = kind;
        this.operation = operation;
        this.object = object;
        this.remedy = remedy;
        this.attempts = attempts;
        this.elapsed = elapsed;
        this.isUnreachable = isUnreachable;
    }

    /** A failure on this side of the library. */
    TidegateException(Kind kind, String message, Throwable cause) {
        this(kind, message, cause, "", "", null, 0, Duration.ZERO, false);
    }

    static TidegateException invalid(String message, Throwable cause) {
        return new TidegateException(Kind.INVALID_INPUT, message, cause);
    }

    /** The failure that the native library describes. */
    static TidegateException of(byte[] failure) {
        return of(new Wire.Decoder(failure));
    }

    static TidegateException of(Wire.Decoder from) {
        Kind kind = kind(from.text());
        String message = from.text();
        String operation = from.text();
        String object = from.text();
        return new TidegateException(
                kind,
                message,
                cause(kind, object, message),
                operation,
                object,
                from.text(),
                (int) from.number(),
                Duration.ofMillis(from.number()),
                from.number() == 1);
    }

    private static Kind kind(String name) {
        try {
            return Kind.valueOf(name.toUpperCase(Locale.ROOT));
        } catch (IllegalArgumentException e) {
            return Kind.OTHER;
        }
    }

    private static IOException cause(Kind kind, String object, String message) {
        String prefix = object + ": ";
        // These types put the object in front of the reason themselves.
        String reason = message.startsWith(prefix) ? message.substring(prefix.length()) : message;
        return switch (kind) {
            case NOT_FOUND, NO_BUCKET -> new NoSuchFileException(object, null, reason);
            case ALREADY_EXISTS -> new FileAlreadyExistsException(object, null, reason);
            case PERMISSION_DENIED -> new AccessDeniedException(object, null, reason);
            default -> null;
        };
    }

    /** The same failure, told again to a caller who asks again. */
    TidegateException again() {
        return new TidegateException(
                kind,
                getMessage(),
                this,
                operation,
                object,
                remedy,
                attempts,
                elapsed,
                isUnreachable);
    }

    /** What kind of failure it is. */
    public Kind kind() {
        return kind;
    }

    /**
     * The operation that failed, such as {@code put}; empty where no operation of a store had
     * begun.
     */
    public String operation() {
        return operation;
    }

    /** The URL of the object or bucket that the failure is about; empty where none is known. */
    public String object() {
        return object;
    }

    /** What to do, where there is advice. */
    public Optional<String> remedy() {
        return Optional.ofNullable(remedy);
    }

    /** How many requests were made; 0 if there was none. */
    public int attempts() {
        return attempts;
    }

    /** The time from the first attempt to giving up. */
    public Duration elapsed() {
        return elapsed;
    }

    /** Whether the store could not be reached at all. */
    public boolean isUnreachable() {
        return isUnreachable;
    }
}
