package io.tidegate.hadoop;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.contract.AbstractBondedFSContract;

/** What Hadoop's contract tests expect of the file system, and where they find it. */
final class TidegateContract extends AbstractBondedFSContract {
    TidegateContract(Configuration conf) {
        super(TestStore.configure(conf));
        addConfResource("contract/tidegate.xml");
        conf.set("fs.contract.test.fs." + getScheme(), TestStore.uri().toString());
    }

    @Override
    public String getScheme() {
        return TestStore.uri().getScheme();
    }
}
