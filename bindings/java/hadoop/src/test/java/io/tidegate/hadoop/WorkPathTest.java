package io.tidegate.hadoop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.tidegate.Options;

import org.apache.hadoop.fs.Path;
import org.junit.jupiter.api.Test;

/** Which paths are in the work path of an attempt. */
class WorkPathTest {
    private final Bucket bucket = new Bucket(null, Options.none(), new Path("s3a://bucket/"));

    private WorkPath.Place place(String key) {
        return WorkPath.place(new ObjectPath(bucket, key)).orElseThrow();
    }

    @Test
    void aPlaceHasTheNamesOfItsPath() {
        WorkPath of = new WorkPath(new Path("s3a://bucket/out/t"), "j", "t1", "t1_0");
        WorkPath.Place file = place("out/t/__tidegate_j/files/t1/t1_0/a=1/part-0");
        assertEquals(of, file.in());
        assertEquals("a=1/part-0", file.key());
        assertEquals(new Path(of.path(), "a=1/part-0"), file.at());
        assertEquals(of.path(), place("out/t/__tidegate_j/files/t1/t1_0").at());
        assertEquals("", place("out/t/__tidegate_j/files/t1/t1_0").key());
        Path root = new Path("s3a://bucket/");
        assertEquals(root, place("__tidegate_j/files/t/a/x").in().out());
    }

    @Test
    void otherPathsAreInNone() {
        for (String key :
                new String[] {
                    "out/part-0",
                    "out/__tidegate_j",
                    "out/__tidegate_j/files/t",
                    "out/__tidegate_j/tasks/t/a.json",
                    "out/a__tidegate_j/files/t/a/x",
                    "out/__tidegate_/files/t/a/x"
                }) {
            assertTrue(WorkPath.place(new ObjectPath(bucket, key)).isEmpty(), key);
        }
    }
}
