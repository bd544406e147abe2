package io.tidegate;

import java.util.ArrayList;
import java.util.List;

/**
 * What became of the uploads of a set that {@link Store#abandonSet} has ended.
 *
 * @param visible those whose objects had been published before, and stay
 * @param abandoned those that no commit publishes any more
 */
public record AbandonedSet(List<Pending> visible, List<Pending> abandoned) {
    static AbandonedSet of(Call.Reply reply) {
        Wire.Decoder from = new Wire.Decoder(reply.payload());
        List<Pending> visible = new ArrayList<>();
        List<Pending> abandoned = new ArrayList<>();
        while (from.hasMore()) {
            (visible.size() < reply.value() ? visible : abandoned).add(new Pending(from));
        }
        return new AbandonedSet(List.copyOf(visible), List.copyOf(abandoned));
    }
}
