package io.tidegate;

import static org.junit.jupiter.api.Assertions.assertNotNull;

import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;

/** What the library logs until this is closed. */
final class Logged extends Handler implements AutoCloseable {
    private final Logger logger = Logger.getLogger("io.tidegate");
    private final LinkedBlockingQueue<String> messages = new LinkedBlockingQueue<>();

    Logged() {
        logger.addHandler(this);
        logger.setUseParentHandlers(false);
    }

    /** The next message that contains this text, which another thread may log. */
    String next(String text) throws InterruptedException {
        String message;
        do {
            message = messages.poll(30, TimeUnit.SECONDS);
            assertNotNull(message, () -> "nothing is logged of " + text);
        } while (!message.contains(text));
        return message;
    }

    /** The message about this key, whose owner is unreachable: garbage is collected until then. */
    String ofGarbage(String key) throws InterruptedException {
        for (int tries = 0; tries < 300; tries++) {
            System.gc();
            String message = messages.poll(100, TimeUnit.MILLISECONDS);
            if (message != null && message.contains(key)) {
                return message;
            }
        }
        throw new AssertionError("nothing is logged of " + key);
    }

    @Override
    public void publish(LogRecord record) {
        messages.add(record.getMessage());
    }

    @Override
    public void flush() {}

    @Override
    public void close() {
        logger.removeHandler(this);
        logger.setUseParentHandlers(true);
    }
}
