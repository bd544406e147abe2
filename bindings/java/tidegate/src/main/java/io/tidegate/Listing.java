package io.tidegate;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Spliterator;
import java.util.Spliterators;
import java.util.function.Consumer;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/** The entries of a listing, a page at a time. */
final class Listing extends Spliterators.AbstractSpliterator<Entry> {
    private final Handle handle;
    private Wire.Decoder page = new Wire.Decoder(new byte[0]);

    Listing(Handle handle) {
        super(Long.MAX_VALUE, Spliterator.ORDERED | Spliterator.DISTINCT | Spliterator.NONNULL);
        this.handle = handle;
    }

    Stream<Entry> stream() {
        return StreamSupport.stream(this, false);
    }

    @Override
    public boolean tryAdvance(Consumer<? super Entry> action) {
        if (!page.hasMore()) {
            try {
                page = new Wire.Decoder(Call.await(handle, Native::nextPage).payload());
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
            if (!page.hasMore()) {
                return false;
            }
        }
        action.accept(Entry.of(page));
        return true;
    }
}
