package io.tidegate;

import static io.tidegate.Servers.bytes;
import static io.tidegate.Servers.fails;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.tidegate.TidegateException.Kind;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.List;

class PartsUploadTest {
    private static final byte[] LARGE = bytes(5 << 20);
    private static final byte[] SMALL = bytes(100);

    @ParameterizedTest
    @MethodSource("io.tidegate.Servers#withGoogle")
    void partsArePutInAnyOrderByWhoeverHasTheId(Store store) throws Exception {
        assertTrue(PartsUpload.isSupported(store));
        Options options = Options.of("content_type", "text/tide");
        String id = PartsUpload.open(store, "parts", options).id();
        PartsUpload upload = PartsUpload.of(store, id);
        assertEquals("parts", upload.key());
        ByteBuffer direct = ByteBuffer.allocateDirect(SMALL.length).put(SMALL).flip();
        PartReceipt last = upload.putPart(7, direct);
        assertFalse(direct.hasRemaining());
        PartReceipt first = upload.putPart(3, ByteBuffer.wrap(LARGE));
        assertEquals(3, first.number());
        assertEquals(LARGE.length, first.size());
        assertFalse(store.exists("parts"));
        List<PartReceipt> receipts = List.of(PartReceipt.fromJson(last.toJson()), first);
        assertEquals(last, receipts.get(0));
        ByteArrayOutputStream all = new ByteArrayOutputStream();
        all.writeBytes(LARGE);
        all.writeBytes(SMALL);
        for (int time = 0; time < 2; time++) {
            ObjectInfo object = PartsUpload.of(store, id).complete(receipts);
            assertEquals(all.size(), object.size().getAsLong());
        }
        assertArrayEquals(all.toByteArray(), store.get("parts"));
        fails(Kind.CLOSED, upload::abandon);
    }

    @ParameterizedTest
    @MethodSource("io.tidegate.Servers#withGoogle")
    void whatIsAbandonedIsLost(Store store) throws Exception {
        PartsUpload upload = PartsUpload.open(store, "given-up", Options.none());
        PartReceipt receipt = upload.putPart(1, ByteBuffer.wrap(SMALL));
        upload.abandon();
        upload.abandon();
        fails(Kind.SESSION_LOST, () -> upload.putPart(2, ByteBuffer.wrap(SMALL)));
        fails(Kind.SESSION_LOST, () -> upload.complete(List.of(receipt)));
        assertFalse(store.exists("given-up"));
    }

    @ParameterizedTest
    @MethodSource("io.tidegate.Servers#withGoogle")
    void whatMakesNoObjectIsRefused(Store store) throws Exception {
        PartsUpload upload = PartsUpload.open(store, "refused", Options.none());
        PartsUpload other = PartsUpload.open(store, "refused", Options.none());
        PartReceipt small = upload.putPart(1, ByteBuffer.wrap(SMALL));
        PartReceipt foreign = other.putPart(2, ByteBuffer.wrap(SMALL));
        fails(Kind.INVALID_INPUT, () -> upload.complete(List.of()));
        fails(Kind.INVALID_INPUT, () -> upload.complete(List.of(small, small)));
        fails(Kind.INVALID_INPUT, () -> upload.complete(List.of(foreign)));
        fails(Kind.INVALID_INPUT, () -> upload.putPart(0, ByteBuffer.wrap(SMALL)));
        fails(Kind.INVALID_INPUT, () -> upload.putPart(-1, ByteBuffer.wrap(SMALL)));
        fails(Kind.INVALID_INPUT, () -> PartsUpload.of(store, "lol"));
        fails(Kind.INVALID_INPUT, () -> PartReceipt.fromJson(upload.id()));
        Options strategy = Options.of("strategy", "put");
        fails(Kind.INVALID_INPUT, () -> PartsUpload.open(store, "refused", strategy));
        PartsUpload again = PartsUpload.open(store, "refused", strategy.without("strategy"));
        again.abandon();
        other.abandon();
        assertEquals(SMALL.length, upload.complete(List.of(small)).size().getAsLong());
    }

    @Test
    void aDiskTakesNoPartsInAnyOrder(@TempDir Path directory) throws Exception {
        Store store = Tidegate.shared().open(directory.toString());
        assertFalse(PartsUpload.isSupported(store));
        fails(Kind.UNSUPPORTED, () -> PartsUpload.open(store, "k", Options.none()));
    }
}
