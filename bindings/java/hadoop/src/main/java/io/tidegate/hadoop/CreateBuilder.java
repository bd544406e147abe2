package io.tidegate.hadoop;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.Options.CreateFileOptionKeys;
import org.apache.hadoop.fs.Path;

import java.io.IOException;
import java.util.Map;
import java.util.Set;

/** Collects how a file is to be created. */
final class CreateBuilder extends FSDataOutputStreamBuilder<FSDataOutputStream, CreateBuilder> {
    private static final String ABSENT =
            CreateFileOptionKeys.FS_OPTION_CREATE_CONDITIONAL_OVERWRITE;
    private static final String ETAG =
            CreateFileOptionKeys.FS_OPTION_CREATE_CONDITIONAL_OVERWRITE_ETAG;
    private static final String CONTENT_TYPE = CreateFileOptionKeys.FS_OPTION_CREATE_CONTENT_TYPE;

    /** All files are created when they are closed. */
    private static final Set<String> KNOWN =
            Set.of(ABSENT, ETAG, CONTENT_TYPE, CreateFileOptionKeys.FS_OPTION_CREATE_IN_CLOSE);

    private final TidegateFileSystem fileSystem;

    CreateBuilder(TidegateFileSystem fileSystem, Path path) {
        super(fileSystem, path);
        this.fileSystem = fileSystem;
    }

    @Override
    public CreateBuilder getThisBuilder() {
        return this;
    }

    @Override
    public FSDataOutputStream build() throws IOException {
        rejectUnknownMandatoryKeys(KNOWN, "for " + getPath());
        if (getFlags().contains(CreateFlag.APPEND)) {
            throw new UnsupportedOperationException("an object can't be appended to");
        }
        Configuration given = getOptions();
        String type = given.getTrimmed(CONTENT_TYPE, "");
        Map<String, String> attributes = type.isEmpty() ? Map.of() : Map.of("content_type", type);
        if (!isRecursive()) {
            fileSystem.checkParent(getPath());
        }
        return fileSystem.create(getPath(), condition(given), attributes);
    }

    private WriteCondition condition(Configuration given) {
        String etag = given.getTrimmed(ETAG, "");
        if (!etag.isEmpty()) {
            return new WriteCondition.Tagged(etag);
        }
        boolean mayReplace =
                getFlags().contains(CreateFlag.OVERWRITE) && !given.getBoolean(ABSENT, false);
        return mayReplace ? new WriteCondition.None() : new WriteCondition.Absent();
    }
}
