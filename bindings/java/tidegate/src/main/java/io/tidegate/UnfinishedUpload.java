package io.tidegate;

import java.io.IOException;
import java.lang.ref.Reference;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * An upload in a journal, from {@link Tidegate#recover}: one that a process left, or that one is
 * writing now. The description does not change; the upload stays in the journal until it was
 * resumed, aborted or forgotten.
 *
 * <p>A journal names the store and not how the store is reached. Without a {@link Store}, the
 * environment says that.
 */
public final class UnfinishedUpload {
    private final String id;
    private final String url;
    private final String problem;
    private final long length;
    private final boolean isFinished;
    private final Handle handle;

    private UnfinishedUpload(Wire.Decoder from) {
        id = from.text();
        url = from.text();
        problem = from.text();
        length = from.number();
        isFinished = from.number() == 1;
        handle = new Handle(from.number());
    }

    static List<UnfinishedUpload> all(byte[] encoded) {
        Wire.Decoder from = new Wire.Decoder(encoded);
        List<UnfinishedUpload> all = new ArrayList<>();
        while (from.hasMore()) {
            all.add(new UnfinishedUpload(from));
        }
        return List.copyOf(all);
    }

    /** Names it among all journals. */
    public String id() {
        return id;
    }

    /** The URL of the object to be; empty if the journal can't be read. */
    public Optional<String> url() {
        return Optional.ofNullable(url);
    }

    /** Why it can't be resumed, such as that a process is writing it. */
    public Optional<String> problem() {
        return Optional.ofNullable(problem);
    }

    /** How many bytes of the object are in the journal or at the store. */
    public long length() {
        return length;
    }

    /** Whether its producer had finished: to resume it is to publish the object. */
    public boolean isFinished() {
        return isFinished;
    }

    /** Goes on with the upload, on the store that the journal names. */
    public Resumed resume() throws IOException {
        return resumed(await(Native::resumeUnfinished, null));
    }

    /** Goes on with the upload, on this store. */
    public Resumed resume(Store on) throws IOException {
        return resumed(await(Native::resumeUnfinished, on));
    }

    private Resumed resumed(Call.Reply reply) throws IOException {
        return reply.value() == 0
                ? new Resumed.Published(ObjectInfo.of(reply))
                : new Resumed.Continued(new Writer(reply, url));
    }

    /**
     * Ends the upload without an object, on the store that the journal names: its session and its
     * journal go.
     *
     * @return the object, if it turns out that it had been published: it stays
     */
    public Optional<ObjectInfo> abort() throws IOException {
        return ObjectInfo.ofOptional(await(Native::abortUnfinished, null));
    }

    /** The same as {@link #abort()}, on this store. */
    public Optional<ObjectInfo> abort(Store on) throws IOException {
        return ObjectInfo.ofOptional(await(Native::abortUnfinished, on));
    }

    private interface Begin {
        void with(long upload, long token, long store) throws TidegateException;
    }

    /** Carries out a call; no store stands for the one that the journal names. */
    private Call.Reply await(Begin begin, Store on) throws IOException {
        long store = on == null ? 0 : on.handle().address();
        try {
            return Call.await(handle, (upload, token) -> begin.with(upload, token, store));
        } finally {
            Reference.reachabilityFence(on);
        }
    }

    /** Removes the journal with all its bytes, and sends nothing: a session is left to a sweep. */
    public void forget() throws IOException {
        Call.await(handle, Native::forgetUnfinished);
    }

    @Override
    public String toString() {
        return "UnfinishedUpload " + id + (url == null ? "" : " of " + url);
    }
}
