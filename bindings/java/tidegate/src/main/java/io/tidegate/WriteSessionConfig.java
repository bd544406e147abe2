package io.tidegate;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/** How the sessions of an engine write, from {@link WriteSessionConfigs}. It never changes. */
public sealed class WriteSessionConfig permits WriteSessionConfig.Chunked {
    private final Options ofWrite;
    private final String directoryOption;
    private final List<Path> directories;

    WriteSessionConfig(Options ofWrite, String directoryOption, List<Path> directories) {
        this.ofWrite = ofWrite;
        this.directoryOption = directoryOption;
        this.directories = directories;
    }

    /** One whose bytes wait in memory, and in no directory. */
    WriteSessionConfig(Options ofWrite) {
        this(ofWrite, "", List.of());
    }

    /** What a session adds to the options of its write, which come after and so win. */
    Options ofWrite() {
        return ofWrite;
    }

    /** The options of the engine, with the directories of this, which are made where missing. */
    Options ofEngine(Options engine) throws IOException {
        Options all = engine;
        for (Path directory : directories) {
            String made = Files.createDirectories(directory).toAbsolutePath().toString();
            // Naming a directory twice is no other engine.
            all = all.has(directoryOption, made) ? all : all.and(directoryOption, made);
        }
        return all;
    }

    /** Sessions that send a chunk at a time. */
    public static final class Chunked extends WriteSessionConfig {
        Chunked(Options ofWrite) {
            super(ofWrite);
        }

        /**
         * The same with chunks of this size, in bytes. The store may take only multiples of a size
         * (Google: 256 KiB), and then gets the next larger one.
         */
        public Chunked withChunkSize(int bytes) {
            return new Chunked(
                    Options.of("strategy", "chunked").and("part_size", Integer.toString(bytes)));
        }
    }
}
