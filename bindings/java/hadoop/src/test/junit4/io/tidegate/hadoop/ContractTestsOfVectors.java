package io.tidegate.hadoop;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.contract.AbstractContractVectoredReadTest;
import org.apache.hadoop.fs.contract.AbstractFSContract;

/** Hadoop's contract tests of vectored reads, whose parameters JUnit 4 has, as Hadoop 3.4. */
final class ContractTestsOfVectors {
    private ContractTestsOfVectors() {}

    public static class VectoredRead extends AbstractContractVectoredReadTest {
        public VectoredRead(String bufferType) {
            super(bufferType);
        }

        @Override
        protected AbstractFSContract createContract(Configuration conf) {
            return new TidegateContract(conf);
        }
    }
}
