package io.tidegate;

import java.nio.file.Path;
import java.util.Collection;
import java.util.List;

/**
 * How the sessions of an engine write: the configurations of google-cloud-storage's {@code
 * BlobWriteSessionConfigs}, by their names there. Not {@code bidiWrite}, which makes bytes visible
 * before all of them are written.
 *
 * <p>{@link Tidegate#shared(Options, WriteSessionConfig)} takes one. Directories are options of the
 * engine, whose writers all may use them, and which has one memory budget: so two configurations
 * with different directories are two engines, with a budget each; all others are one.
 */
public final class WriteSessionConfigs {
    private WriteSessionConfigs() {}

    /**
     * The library chooses, by the size of the object, the store and the memory budget. With {@code
     * withChunkSize} it becomes {@link #chunked()}, as in google-cloud-storage.
     */
    public static WriteSessionConfig.Chunked getDefault() {
        return new WriteSessionConfig.Chunked(Options.none());
    }

    /** A chunk at a time, of 16 MiB: the least memory, {@code strategy=chunked}. */
    public static WriteSessionConfig.Chunked chunked() {
        return new WriteSessionConfig.Chunked(Options.of("strategy", "chunked"));
    }

    /** As {@link #bufferToDiskThenUpload(Collection)}. */
    public static WriteSessionConfig bufferToDiskThenUpload(Path... directories) {
        return bufferToDiskThenUpload(List.of(directories));
    }

    /**
     * All bytes on disk, and then to the store when the channel is closed: {@code strategy=spool}.
     * Nothing is left in the directories, however the process ends.
     *
     * @param directories are made if they are missing
     */
    public static WriteSessionConfig bufferToDiskThenUpload(Collection<Path> directories) {
        return inDirectories("spool", directories);
    }

    /** The same in the directory that {@code java.io.tmpdir} names. */
    public static WriteSessionConfig bufferToTempDirThenUpload() {
        return bufferToDiskThenUpload(Path.of(System.getProperty("java.io.tmpdir")));
    }

    /**
     * Bytes are on disk when a write has returned, and survive the process; meanwhile they go to
     * the store: {@code strategy=journal}. {@link Tidegate#recover} has what a process left.
     *
     * @param directories are made if they are missing; several disks share the sessions
     */
    public static WriteSessionConfig journaling(Collection<Path> directories) {
        return inDirectories("journal", directories);
    }

    /** Parts in flight while the producer goes on: {@code strategy=parallel}. */
    public static WriteSessionConfig parallel() {
        return new WriteSessionConfig(Options.of("strategy", "parallel"));
    }

    /** The name that google-cloud-storage has for {@link #parallel()}. */
    public static WriteSessionConfig parallelCompositeUpload() {
        return parallel();
    }

    /** {@code strategy} is the name of the engine's option too, which names the directories. */
    private static WriteSessionConfig inDirectories(String strategy, Collection<Path> directories) {
        if (directories.isEmpty()) {
            throw new IllegalArgumentException("name a directory at least");
        }
        return new WriteSessionConfig(
                Options.of("strategy", strategy), strategy, List.copyOf(directories));
    }
}
