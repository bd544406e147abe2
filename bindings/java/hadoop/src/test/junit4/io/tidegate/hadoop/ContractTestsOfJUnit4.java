package io.tidegate.hadoop;

import static org.junit.Assume.assumeTrue;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FileSystemContractBaseTest;
import org.apache.hadoop.fs.contract.AbstractContractBulkDeleteTest;
import org.apache.hadoop.fs.contract.AbstractContractVectoredReadTest;
import org.apache.hadoop.fs.contract.AbstractFSContract;
import org.junit.Before;
import org.junit.Test;

/** The contract tests of which the subclass needs JUnit 4, as Hadoop 3.4 has it. */
final class ContractTestsOfJUnit4 {
    private ContractTestsOfJUnit4() {}

    public static class VectoredRead extends AbstractContractVectoredReadTest {
        public VectoredRead(String bufferType) {
            super(bufferType);
        }

        @Override
        protected AbstractFSContract createContract(Configuration conf) {
            return new TidegateContract(conf);
        }
    }

    public static class Base extends FileSystemContractBaseTest {
        @Before
        public void setUp() throws Exception {
            fs = FileSystem.get(TestStore.uri(), TestStore.configure(new Configuration()));
        }

        @Test
        @Override
        public void testMkdirsWithUmask() {
            assumeTrue("stores have no permissions of directories", false);
        }
    }

    public static class BulkDelete extends AbstractContractBulkDeleteTest {
        @Override
        protected AbstractFSContract createContract(Configuration conf) {
            return new TidegateContract(conf);
        }

        @Override
        protected int getExpectedPageSize() {
            return 1000;
        }
    }
}
