package io.tidegate.hadoop;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.contract.AbstractContractVectoredReadTest;
import org.apache.hadoop.fs.contract.AbstractFSContract;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.MethodSource;

/** Hadoop's contract tests of vectored reads, whose parameters JUnit 5 has, as Hadoop 3.5. */
final class ContractTestsOfVectors {
    private ContractTestsOfVectors() {}

    @ParameterizedClass
    @MethodSource("params")
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
