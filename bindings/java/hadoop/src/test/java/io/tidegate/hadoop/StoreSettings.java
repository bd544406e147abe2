package io.tidegate.hadoop;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.tidegate.TidegateException;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.security.alias.CredentialProvider;
import org.apache.hadoop.security.alias.CredentialProviderFactory;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

import java.io.IOException;
import java.nio.file.AccessDeniedException;

/** The settings of S3A beside those that lead to the store. */
class StoreSettings {
    private static final Path MISSING = new Path(TestStore.uri().resolve("/missing"));

    private static Configuration settings() {
        Configuration conf = TestStore.configure(new Configuration());
        conf.set("fs.tidegate.attempts", "1");
        return conf;
    }

    private static boolean exists(Configuration conf) throws IOException {
        try (FileSystem fs = FileSystem.newInstance(TestStore.uri(), conf)) {
            return fs.exists(MISSING);
        }
    }

    @Test
    void aSettingOfTheBucketCountsMoreThanTheGeneralOne() throws IOException {
        Configuration conf = settings();
        String bucket = "fs.s3a.bucket." + TestStore.uri().getAuthority() + ".";
        String endpoint = conf.get("fs.s3a.endpoint");
        conf.set("fs.s3a.endpoint", "127.0.0.1:1");
        TidegateException unreachable = assertThrows(TidegateException.class, () -> exists(conf));
        assertTrue(unreachable.isUnreachable());
        conf.set(bucket + "endpoint", endpoint);
        assertFalse(exists(conf));
        conf.set(bucket + "secret.key", "wrong");
        assertThrows(AccessDeniedException.class, () -> exists(conf));
        conf.set("fs.tidegate.secret_key", "tidegate");
        assertFalse(exists(conf));
    }

    @Test
    void aCredentialProviderHoldsSecrets(@TempDir java.nio.file.Path folder) throws IOException {
        Configuration conf = settings();
        String secret = conf.get("fs.s3a.secret.key");
        conf.unset("fs.s3a.secret.key");
        conf.set(
                CredentialProviderFactory.CREDENTIAL_PROVIDER_PATH,
                "localjceks://file" + folder.resolve("secrets.jceks"));
        CredentialProvider provider = CredentialProviderFactory.getProviders(conf).get(0);
        provider.createCredentialEntry("fs.s3a.secret.key", secret.toCharArray());
        provider.flush();
        assertFalse(exists(conf));
    }

    @Test
    void nobodySignsWithTheAnonymousProvider() {
        Configuration conf = settings();
        conf.unset("fs.s3a.access.key");
        conf.unset("fs.s3a.secret.key");
        conf.set(
                "fs.s3a.aws.credentials.provider",
                "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider");
        assertThrows(AccessDeniedException.class, () -> exists(conf));
    }
}
