package io.tidegate;

import java.nio.ByteBuffer;

/**
 * The functions of the native library, and the two methods that it calls.
 *
 * <p>A method with a {@code token} begins a call and returns at once; {@link #complete} is called
 * with the token when the call has ended, unless the method has thrown. The others never wait.
 * Texts are bytes in UTF-8, and options, objects and failures are in the encoding of {@link Wire}.
 * Where a method takes an array and a direct buffer, one of them is null. A handle must be
 * reachable until the method has returned: {@link Call} and {@link Handle} see to it.
 */
final class Native {
    /** What this class expects of the library. It changes with every change of a method here. */
    static final int ABI = 5;

    private Native() {}

    static native int abi();

    static native long engine(byte[] options) throws TidegateException;

    static native byte[] usage(long engine) throws TidegateException;

    static native void recover(long engine, long token) throws TidegateException;

    static native void resumeUnfinished(long upload, long token, long store)
            throws TidegateException;

    static native void abortUnfinished(long upload, long token, long store)
            throws TidegateException;

    static native void forgetUnfinished(long upload, long token) throws TidegateException;

    static native void waitForAborts(long engine, long token, long limitMillis)
            throws TidegateException;

    static native void openStore(long engine, long token, byte[] url, byte[] options)
            throws TidegateException;

    static native long within(long store, byte[] prefix) throws TidegateException;

    static native void location(long store, long token) throws TidegateException;

    static native void put(
            long store,
            long token,
            byte[] key,
            byte[] array,
            ByteBuffer direct,
            int from,
            int length,
            byte[] options)
            throws TidegateException;

    static native void get(long store, long token, byte[] key) throws TidegateException;

    static native void stat(long store, long token, byte[] key) throws TidegateException;

    static native void find(long store, long token, byte[] key) throws TidegateException;

    static native void exists(long store, long token, byte[] key) throws TidegateException;

    static native void delete(long store, long token, byte[] key) throws TidegateException;

    static native void deleteAll(long store, long token, byte[] keys) throws TidegateException;

    static native void rename(long store, long token, byte[] key, byte[] toKey, byte[] options)
            throws TidegateException;

    static native void upload(long store, long token, byte[] path, byte[] key, byte[] options)
            throws TidegateException;

    static native void download(long store, long token, byte[] key, byte[] path, byte[] options)
            throws TidegateException;

    static native void copy(
            long store, long token, byte[] key, long to, byte[] toKey, byte[] options)
            throws TidegateException;

    static native long openList(long store, byte[] prefix, byte[] options) throws TidegateException;

    static native void nextPage(long list, long token) throws TidegateException;

    static native void openWriter(long store, long token, byte[] key, byte[] options)
            throws TidegateException;

    static native boolean isJournaled(long writer) throws TidegateException;

    static native int tryWrite(long writer, byte[] array, ByteBuffer direct, int from, int length)
            throws TidegateException;

    static native void write(
            long writer, long token, byte[] array, ByteBuffer direct, int from, int length)
            throws TidegateException;

    static native void sync(long writer, long token) throws TidegateException;

    static native void finish(long writer, long token) throws TidegateException;

    static native void abort(long writer, long token) throws TidegateException;

    static native void prepare(long writer, long token, long lifetimeMillis)
            throws TidegateException;

    static native void persist(long writer, long token, long lifetimeMillis)
            throws TidegateException;

    static native byte[] readPending(byte[] json) throws TidegateException;

    static native byte[] readPoint(byte[] json) throws TidegateException;

    static native void commit(long store, long token, byte[] json) throws TidegateException;

    static native void abandon(long store, long token, byte[] json, boolean isPoint)
            throws TidegateException;

    static native void resume(long store, long token, byte[] json) throws TidegateException;

    static native void forget(long store, long token, byte[] json) throws TidegateException;

    static native boolean takesPartsInAnyOrder(long store) throws TidegateException;

    static native void openPartsUpload(long store, long token, byte[] key, byte[] options)
            throws TidegateException;

    static native void readPartsUpload(long store, long token, byte[] id) throws TidegateException;

    static native void putPart(
            long store,
            long token,
            byte[] id,
            int number,
            byte[] array,
            ByteBuffer direct,
            int from,
            int length)
            throws TidegateException;

    static native byte[] readReceipt(byte[] json) throws TidegateException;

    static native void completeParts(long store, long token, byte[] id, byte[] receipts)
            throws TidegateException;

    static native void abandonParts(long store, long token, byte[] id) throws TidegateException;

    static native byte[] manifest(byte[] pointer, byte[] jsons) throws TidegateException;

    static native byte[] readManifest(byte[] json) throws TidegateException;

    static native void prepareAll(
            long store, long token, byte[] pointer, long[] writers, long lifetimeMillis)
            throws TidegateException;

    static native void commitAll(long store, long token, byte[] json) throws TidegateException;

    static native void rollForward(long store, long token, byte[] pointer) throws TidegateException;

    static native void abandonAll(long store, long token, byte[] json) throws TidegateException;

    static native void abandonSet(long store, long token, byte[] pointer) throws TidegateException;

    static native void close(long writer, boolean alsoFailed) throws TidegateException;

    static native void lose(long writer) throws TidegateException;

    static native void checkJob(long store, byte[] id) throws TidegateException;

    static native void setUpJob(
            long store,
            long token,
            byte[] id,
            long lifetimeMillis,
            boolean hasSuccessMarker,
            boolean rollsForward,
            boolean completesBegun)
            throws TidegateException;

    static native void beginAttempt(long store, long token, byte[] id, byte[] task, byte[] attempt)
            throws TidegateException;

    static native void abortAttempt(long store, long token, byte[] id, byte[] task, byte[] attempt)
            throws TidegateException;

    static native void commitJob(long store, long token, byte[] id) throws TidegateException;

    static native void abortJob(long store, long token, byte[] id) throws TidegateException;

    static native void rollForwardJobs(long store, long token) throws TidegateException;

    static native void abandonUnfinishedJobs(long store, long token) throws TidegateException;

    static native void giveUpAllJobs(long store, long token) throws TidegateException;

    static native void lastCompletedJob(long store, long token) throws TidegateException;

    static native void openTaskWriter(
            long store, long token, long attempt, byte[] key, byte[] options)
            throws TidegateException;

    static native void finishTaskFile(long writer, long token) throws TidegateException;

    static native void commitAttempt(long store, long token, long attempt) throws TidegateException;

    static native void openReader(long store, long token, byte[] key, byte[] options)
            throws TidegateException;

    static native void fill(long reader, long token, long position) throws TidegateException;

    static native int take(
            long reader, long position, byte[] array, ByteBuffer direct, int from, int length)
            throws TidegateException;

    static native void readAt(
            long reader,
            long token,
            long position,
            byte[] array,
            ByteBuffer direct,
            int from,
            int length)
            throws TidegateException;

    /**
     * {@code bounds} has four numbers for each buffer: 1 if it is direct, where it begins, its
     * length, its position.
     */
    static native void readRanges(long reader, long token, Object[] buffers, long[] bounds)
            throws TidegateException;

    static native void closeReader(long reader) throws TidegateException;

    static native void cancel(long token) throws TidegateException;

    static native void free(long handle) throws TidegateException;

    /** The library calls this, on a thread of an engine, when a call has ended. */
    static void complete(long token, boolean isSuccess, long value, byte[] payload) {
        Call.complete(token, new Call.Reply(isSuccess, value, payload));
    }

    /** The library calls this to throw what a method of this class throws. */
    @SuppressWarnings("DoNotCallSuggester")
    static void raise(byte[] failure) throws TidegateException {
        throw TidegateException.of(failure);
    }
}
