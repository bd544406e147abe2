package io.tidegate.hadoop;

import org.apache.hadoop.fs.statistics.IOStatistics;
import org.apache.hadoop.fs.statistics.MeanStatistic;

import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.atomic.LongAdder;

/** Counters that any number of threads may add to. Each view of them is a sorted copy. */
final class Counters implements IOStatistics {
    private final Map<String, LongAdder> counters = new HashMap<>();

    /** Counters of these names, each 0. */
    Counters(String... names) {
        for (String name : names) {
            counters.put(name, new LongAdder());
        }
    }

    /** One of the counters. Callers that count often keep it. */
    LongAdder counter(String name) {
        return counters.get(name);
    }

    /** Adds to one of the counters. */
    void add(String name, long more) {
        counter(name).add(more);
    }

    @Override
    public Map<String, Long> counters() {
        Map<String, Long> now = new TreeMap<>();
        counters.forEach((name, counter) -> now.put(name, counter.sum()));
        return now;
    }

    @Override
    public Map<String, Long> gauges() {
        return Map.of();
    }

    @Override
    public Map<String, Long> minimums() {
        return Map.of();
    }

    @Override
    public Map<String, Long> maximums() {
        return Map.of();
    }

    @Override
    public Map<String, MeanStatistic> meanStatistics() {
        return Map.of();
    }

    @Override
    public String toString() {
        return counters().toString();
    }
}
