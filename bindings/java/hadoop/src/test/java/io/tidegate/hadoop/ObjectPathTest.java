package io.tidegate.hadoop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import io.tidegate.Options;

import org.apache.hadoop.fs.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Which keys have a path. The library writes no key with a name {@code .} or {@code ..}. */
class ObjectPathTest {
    @ParameterizedTest
    @CsvSource({
        "a, true",
        "a/b:c, true",
        ".a, true",
        "a/b., true",
        "a/..b, true",
        "a/.../b, true",
        "'a/.\n', true",
        "'a b/%41', true",
        "/a, false",
        "a//b, false",
        "a/, false",
        "., false",
        "a/./b, false",
        "a/../b, false",
        "a/.., false"
    })
    void aKeyHasAPathIfHadoopLeavesNothingOut(String key, boolean hasPath) {
        assertEquals(hasPath, ObjectPath.hasPath(key));
        Bucket bucket = new Bucket(null, Options.none(), new Path("s3a://bucket/"));
        String path = new ObjectPath(bucket, key).path().toUri().getPath();
        assertEquals(hasPath, path.equals("/" + key), path);
    }

    /** Hadoop leaves this one as it is, and the library refuses it. */
    @Test
    void noPathLeadsOutOfABucket() {
        assertFalse(ObjectPath.hasPath("../a"));
    }
}
