package io.tidegate;

import java.util.Collections;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * What became of the keys of {@link Store#deleteAll}.
 *
 * @param deleted how many keys have no object any more
 * @param failed the other keys, each with the reason; its object may be there or not
 */
public record DeleteReport(long deleted, Map<String, TidegateException> failed) {
    /** Keeps a copy of the map, in its order. */
    public DeleteReport {
        failed = Collections.unmodifiableMap(new LinkedHashMap<>(failed));
    }

    /**
     * Fails unless every key was removed.
     *
     * @throws TidegateException the first failure; the others are suppressed in it
     */
    public void orThrow() throws TidegateException {
        Iterator<TidegateException> failures = failed.values().iterator();
        if (failures.hasNext()) {
            TidegateException first = failures.next().again();
            failures.forEachRemaining(first::addSuppressed);
            throw first;
        }
    }
}
