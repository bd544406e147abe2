package io.tidegate.hadoop;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.apache.hadoop.fs.Options.OpenFileOptions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The table of policies in docs/HADOOP.md. */
class ReadPolicyTest {
    @ParameterizedTest
    @CsvSource({
        "sequential whole-file csv json avro, SEQUENTIAL",
        "random vector parquet orc columnar hbase, RANDOM",
        "adaptive default, ADAPTIVE"
    })
    void everyNameHasItsPolicy(String names, ReadPolicy policy) {
        for (String name : names.split(" ", -1)) {
            assertEquals(policy, ReadPolicy.of(name), name);
        }
    }

    @Test
    void everyNameOfHadoopIsKnown() {
        for (String name : OpenFileOptions.FS_OPTION_OPENFILE_READ_POLICIES) {
            assertEquals(
                    ReadPolicy.of(name + ",random"), ReadPolicy.of(name + ",sequential"), name);
        }
    }

    @Test
    void theFirstKnownNameCounts() {
        assertEquals(ReadPolicy.RANDOM, ReadPolicy.of("x, parquet, csv"));
        assertEquals(ReadPolicy.SEQUENTIAL, ReadPolicy.of("csv,parquet"));
        assertEquals(ReadPolicy.ADAPTIVE, ReadPolicy.of("x"));
        assertEquals(ReadPolicy.ADAPTIVE, ReadPolicy.of(""));
    }
}
