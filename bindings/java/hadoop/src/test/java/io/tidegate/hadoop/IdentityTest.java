package io.tidegate.hadoop;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

/** Which descriptions are of one object. */
class IdentityTest {
    private static void assertDiffer(Identity one, Identity other) {
        assertFalse(one.isSame(other));
        assertFalse(other.isSame(one));
    }

    @Test
    void whatIsSharedMustBeEqual() {
        Identity full = new Identity("tag", "1");
        assertTrue(full.isSame(new Identity("tag", "1")));
        assertTrue(full.isSame(new Identity("tag", null)));
        assertTrue(new Identity(null, "1").isSame(full));
        assertDiffer(full, new Identity("tag", "2"));
        assertDiffer(full, new Identity("other", "1"));
    }

    @Test
    void anObjectWithoutATagIsNeverKnownAgain() {
        Identity none = new Identity(null, null);
        assertDiffer(none, none);
        assertDiffer(none, new Identity("tag", "1"));
        assertDiffer(new Identity("tag", null), new Identity(null, "1"));
    }
}
