package io.tidegate;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Collection;

/**
 * An upload whose parts are put in any order, by any processes: for programs that cut an object
 * themselves. {@link Store#writer} cuts, sends and retries alone.
 *
 * <p>Nothing is visible before {@link #complete}. Losing this object does nothing: the upload stays
 * until it is completed or abandoned, or a sweep finds that it is old enough, by its age alone. On
 * Azure Blob Storage it ends after six days.
 *
 * <p>The first part has the number 1. Most stores take up to 10,000 parts of 5 MiB to 5 GiB; the
 * last part may be smaller. Azure takes parts of any size. Any number of threads may use one
 * object. Every method that waits fails with {@link TidegateException}, or with {@link
 * java.io.InterruptedIOException} within 100 ms after its thread was interrupted; then repeat the
 * call, which may have had its effect.
 */
public final class PartsUpload {
    private final Store store;
    private final String id;
    private final String key;

    private PartsUpload(Store store, Call.Reply reply) {
        this.store = store;
        Wire.Decoder from = new Wire.Decoder(reply.payload());
        id = from.text();
        key = from.text();
    }

    /**
     * Whether a store takes parts in any order: S3, Google Cloud Storage and Azure Blob Storage do,
     * a local disk does not. Sends nothing: a server that lacks what its protocol has shows it in
     * {@link #open}.
     */
    public static boolean isSupported(Store store) throws IOException {
        return store.handle().use(Native::takesPartsInAnyOrder);
    }

    /**
     * Opens an upload.
     *
     * @param options {@code create_only}, which is decided by {@link #complete}, and the attributes
     *     of a write: {@code content_type}, {@code metadata} and others
     * @throws TidegateException of kind {@code UNSUPPORTED}, with nothing sent, if the store does
     *     not take parts in any order, and for {@code create_only} on Google Cloud Storage
     */
    public static PartsUpload open(Store store, String key, Options options) throws IOException {
        byte[] encodedKey = Wire.utf8(key);
        byte[] encoded = options.encoded();
        return new PartsUpload(
                store,
                Call.await(
                        store.handle(),
                        (of, token) -> Native.openPartsUpload(of, token, encodedKey, encoded)));
    }

    /**
     * The upload with this {@link #id}, which any process has opened in the bucket. Sends nothing:
     * that it has ended is found by its next call.
     *
     * @throws TidegateException of kind {@code INVALID_INPUT} if the text is no id of an upload in
     *     parts, or one of another bucket
     */
    public static PartsUpload of(Store store, String id) throws IOException {
        byte[] encoded = Wire.utf8(id);
        return new PartsUpload(
                store,
                Call.await(
                        store.handle(), (of, token) -> Native.readPartsUpload(of, token, encoded)));
    }

    /**
     * What another process finds the upload by: JSON of one line, which later versions of Tidegate
     * read too. It has no credentials.
     */
    public String id() {
        return id;
    }

    /** The key of the object to be, in its store. */
    public String key() {
        return key;
    }

    /**
     * Stores a part, in any order. A part may be put again: then the bytes that arrive last count,
     * and with them their receipt. While it waits for room in the memory budget, the copy lies
     * beside the budget: start no more calls at once than you have memory for.
     *
     * @param number from 1
     * @param bytes what remains of it is the part, and is copied; its position moves to its limit
     * @throws TidegateException of kind {@code INVALID_INPUT} for a number that the store does not
     *     have; {@code TOO_LARGE} for more bytes than a part or the memory of the engine has;
     *     {@code SESSION_LOST} if the upload was completed or abandoned, or has ended
     */
    public PartReceipt putPart(int number, ByteBuffer bytes) throws IOException {
        byte[] encoded = Wire.utf8(id);
        Bytes from = Bytes.toRead(bytes, Integer.MAX_VALUE);
        Call.Reply reply =
                Call.await(
                        store.handle(),
                        (of, token) ->
                                Native.putPart(
                                        of,
                                        token,
                                        encoded,
                                        number,
                                        from.array(),
                                        from.direct(),
                                        from.start(),
                                        from.length()));
        bytes.position(bytes.limit());
        return new PartReceipt(reply.payload());
    }

    /**
     * Publishes the object: the parts of these receipts, in the order of their numbers. When this
     * returns, the whole object is visible. Other parts that were put do not count. Begin at 1 and
     * leave out no number: directory buckets of S3 refuse gaps here. May be repeated, by any
     * process and at the same time: the object is there once.
     *
     * @throws TidegateException of kind {@code INVALID_INPUT} for no receipt, two of one number,
     *     one of another upload, and a part before the last that is too small; and if the upload
     *     does not have a part as its receipt says: it stays, and the part can be put again; {@code
     *     SESSION_LOST} if the upload was abandoned or has ended, or its object was removed or
     *     replaced since; {@code ALREADY_EXISTS} for the condition, and the upload stays. After
     *     {@code UNCERTAIN} complete again.
     */
    public ObjectInfo complete(Collection<PartReceipt> receipts) throws IOException {
        byte[] encoded = Wire.utf8(id);
        Wire.Encoder to = new Wire.Encoder();
        for (PartReceipt receipt : receipts) {
            to.text(receipt.toJson());
        }
        byte[] encodedReceipts = to.bytes();
        return ObjectInfo.of(
                Call.await(
                        store.handle(),
                        (of, token) -> Native.completeParts(of, token, encoded, encodedReceipts)));
    }

    /**
     * Gives the upload up: its parts are freed, and its later calls fail with {@code SESSION_LOST}.
     * Succeeds if it was given up before.
     *
     * @throws TidegateException of kind {@code CLOSED} if the object was published, and is there
     */
    public void abandon() throws IOException {
        byte[] encoded = Wire.utf8(id);
        Call.await(store.handle(), (of, token) -> Native.abandonParts(of, token, encoded));
    }

    @Override
    public String toString() {
        return "PartsUpload to " + key;
    }
}
