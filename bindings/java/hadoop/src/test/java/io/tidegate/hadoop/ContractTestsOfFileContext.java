package io.tidegate.hadoop;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileContext;
import org.apache.hadoop.fs.FileContextCreateMkdirBaseTest;
import org.apache.hadoop.fs.FileContextMainOperationsBaseTest;
import org.apache.hadoop.fs.FileContextURIBase;
import org.apache.hadoop.fs.FileContextUtilBase;
import org.apache.hadoop.fs.UnsupportedFileSystemException;

/** Hadoop's tests of file contexts, as they are. */
final class ContractTestsOfFileContext {
    private ContractTestsOfFileContext() {}

    private static FileContext context() throws UnsupportedFileSystemException {
        return FileContext.getFileContext(
                TestStore.uri(), TestStore.configure(new Configuration()));
    }

    @SuppressWarnings("StaticAssignmentInConstructor") // Hadoop's field is static.
    public static class CreateMkdir extends FileContextCreateMkdirBaseTest {
        public CreateMkdir() throws Exception {
            fc = context();
        }
    }

    @SuppressWarnings("StaticAssignmentInConstructor") // Hadoop's field is static.
    public static class MainOperations extends FileContextMainOperationsBaseTest {
        public MainOperations() throws Exception {
            fc = context();
        }

        @Override
        protected boolean listCorruptedBlocksSupported() {
            return false;
        }
    }

    public static class Uris extends FileContextURIBase {
        public Uris() throws Exception {
            fc1 = context();
            fc2 = context();
        }
    }

    public static class Copies extends FileContextUtilBase {
        public Copies() throws Exception {
            fc = context();
        }
    }
}
