package io.tidegate.hadoop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.tidegate.Options;

import org.apache.hadoop.fs.Path;
import org.junit.jupiter.api.Test;

import java.util.List;

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

    /** The characters at which a {@code .} of a pattern stops. */
    @Test
    void aNameMayHaveEveryCharacter() {
        for (String odd : List.of("\n", "\r", "\u0085", "\u2028", "\u2029")) {
            String out = "out" + odd + "/t";
            WorkPath of = new WorkPath(new Path("s3a://bucket/" + out), "j", "t1", "t1_0");
            WorkPath.Place file =
                    place(out + "/__tidegate_j/files/t1/t1_0/a=" + odd + "/part" + odd);
            assertEquals(of, file.in());
            assertEquals("a=" + odd + "/part" + odd, file.key());
        }
    }

    private void assertOfJob(String out, String below, String key) {
        WorkPath.OfJob job = WorkPath.ofJob(bucket, key).orElseThrow();
        assertEquals(new WorkPath.OfJob(new ObjectPath(bucket, out), "j", below), job);
    }

    @Test
    void aWorkPathIsOfOneJob() {
        assertOfJob("out", "", "out/__tidegate_j/");
        assertOfJob("out\n", "job.json", "out\n/__tidegate_j/job.json");
        assertOfJob("out", "a/__tidegate_k/b", "out/__tidegate_j/a/__tidegate_k/b");
        assertOfJob("", "", "__tidegate_j/");
        assertOfJob("", "tasks/t/a.json", "__tidegate_j/tasks/t/a.json");
        for (String key :
                List.of(
                        "out/__tidegate_j",
                        "out/a__tidegate_j/b",
                        "out/__tidegate_/b",
                        "out/__tidegate_../b",
                        "out/__tidegate_a b/c")) {
            assertTrue(WorkPath.ofJob(bucket, key).isEmpty(), key);
        }
    }

    @Test
    void aFileBesideAnAttemptIsInItsOutputDirectory() {
        WorkPath attempt = new WorkPath(new Path("s3a://bucket/out"), "j", "t", "a");
        assertTrue(attempt.isBeside(new ObjectPath(bucket, "out/part-0")));
        assertFalse(attempt.isBeside(new ObjectPath(bucket, "out-2/part-0")));
        for (String root : List.of("s3a://bucket-2/", "s3://bucket/")) {
            Bucket other = new Bucket(null, Options.none(), new Path(root));
            assertFalse(attempt.isBeside(new ObjectPath(other, "out/part-0")), root);
        }
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
