package io.tidegate.hadoop;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

import java.io.IOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.time.ZoneOffset;
import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;
import java.util.HexFormat;
import java.util.List;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;

import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/**
 * The unfinished uploads that the store has, by a request of S3 that the library has no part in.
 */
final class Sessions {
    private static final String PAYLOAD = "UNSIGNED-PAYLOAD";
    private static final String SIGNED = "host;x-amz-content-sha256;x-amz-date";

    private Sessions() {}

    /** The keys of the uploads below a directory; MinIO names none. */
    static List<String> below(Path directory) throws IOException {
        return found(directory, "/");
    }

    /** The key of a file, for each upload of this key. */
    static List<String> of(Path file) throws IOException {
        return found(file, "");
    }

    /** None on a store that is not reached as S3 is. */
    private static List<String> found(Path at, String end) throws IOException {
        Configuration conf = TestStore.configure(new Configuration());
        String host = conf.getTrimmed("fs.s3a.endpoint", "");
        if (!at.toUri().getScheme().equals("s3a") || host.isEmpty()) {
            return List.of();
        }
        String path = "/" + at.toUri().getAuthority();
        String prefix = at.toUri().getPath().substring(1) + end;
        String query =
                "prefix="
                        + URLEncoder.encode(prefix, StandardCharsets.UTF_8).replace("+", "%20")
                        + "&uploads=";
        try {
            String listed = get(conf, host, path, query);
            return Pattern.compile("<Key>([^<]+)</Key>")
                    .matcher(listed)
                    .results()
                    .map((MatchResult found) -> found.group(1))
                    .toList();
        } catch (GeneralSecurityException e) {
            throw new IOException(e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IOException(e);
        }
    }

    private static String get(Configuration conf, String host, String path, String query)
            throws IOException, InterruptedException, GeneralSecurityException {
        String time =
                ZonedDateTime.now(ZoneOffset.UTC)
                        .format(DateTimeFormatter.ofPattern("yyyyMMdd'T'HHmmss'Z'"));
        String scope = time.substring(0, 8) + "/us-east-1/s3/aws4_request";
        String headers =
                "host:"
                        + host
                        + "\nx-amz-content-sha256:"
                        + PAYLOAD
                        + "\nx-amz-date:"
                        + time
                        + "\n";
        String request = String.join("\n", "GET", path, query, headers, SIGNED, PAYLOAD);
        byte[] hash =
                MessageDigest.getInstance("SHA-256")
                        .digest(request.getBytes(StandardCharsets.UTF_8));
        byte[] key = ("AWS4" + conf.get("fs.s3a.secret.key")).getBytes(StandardCharsets.UTF_8);
        for (String part : scope.split("/", -1)) {
            key = sign(key, part);
        }
        String signed =
                String.join("\n", "AWS4-HMAC-SHA256", time, scope, HexFormat.of().formatHex(hash));
        String authorization =
                String.format(
                        "AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%s",
                        conf.get("fs.s3a.access.key"),
                        scope,
                        SIGNED,
                        HexFormat.of().formatHex(sign(key, signed)));
        HttpRequest get =
                HttpRequest.newBuilder(URI.create("http://" + host + path + "?" + query))
                        .header("x-amz-content-sha256", PAYLOAD)
                        .header("x-amz-date", time)
                        .header("Authorization", authorization)
                        .build();
        HttpResponse<String> answer =
                HttpClient.newHttpClient().send(get, HttpResponse.BodyHandlers.ofString());
        if (answer.statusCode() != 200) {
            throw new IOException(answer.statusCode() + ": " + answer.body());
        }
        return answer.body();
    }

    private static byte[] sign(byte[] key, String text) throws GeneralSecurityException {
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(key, "HmacSHA256"));
        return mac.doFinal(text.getBytes(StandardCharsets.UTF_8));
    }
}
