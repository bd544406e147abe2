package io.tidegate;

/** What a native library for tests has beside: TIDEGATE_JAVA_TEST_LIBRARY names one. */
final class TestLibrary {
    private TestLibrary() {}

    /** Makes the next call panic: 1 at its beginning, 2 in its task. */
    static native void panicNext(int place);

    /** Forks. The child discards the writer, and the result is 0 if it was turned away. */
    static native int forkAndFree(long writer);
}
