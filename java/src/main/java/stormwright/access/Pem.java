package stormwright.access;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.cert.Certificate;
import java.security.cert.CertificateException;
import java.security.cert.CertificateFactory;
import java.security.spec.InvalidKeySpecException;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import java.util.Collection;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.net.ssl.KeyManager;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManager;
import javax.net.ssl.TrustManagerFactory;

/** Certificates and keys from files in PEM, of which the JDK reads certificates alone. */
final class Pem {
    private static final Pattern KEY =
            Pattern.compile("-----BEGIN PRIVATE KEY-----([A-Za-z0-9+/=\\s]+)-----END PRIVATE KEY-----");
    private static final List<String> ALGORITHMS = List.of("RSA", "EC", "Ed25519");
    /** Of a key store that is never written. */
    private static final char[] NO_PASSWORD = new char[0];

    private Pem() {}

    /**
     * What TLS is spoken by.
     *
     * @param authority whose certificates are taken; null for those that the JVM knows
     * @param certificate our own, with those that lead to its authority; null for none
     * @param key its key, in PKCS #8; null for none
     */
    static SSLContext context(Path authority, Path certificate, Path key) throws IOException, GeneralSecurityException {
        SSLContext context = SSLContext.getInstance("TLS");
        KeyManager[] own = key == null ? null : own(certificate, key);
        context.init(own, authority == null ? null : trusting(authority), null);
        return context;
    }

    private static TrustManager[] trusting(Path authority) throws IOException, GeneralSecurityException {
        KeyStore store = empty();
        int number = 0;
        for (Certificate each : certificates(authority)) {
            store.setCertificateEntry("authority-" + number++, each);
        }
        TrustManagerFactory factory = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        factory.init(store);
        return factory.getTrustManagers();
    }

    private static KeyManager[] own(Path certificate, Path key) throws IOException, GeneralSecurityException {
        Certificate[] chain = certificates(certificate).toArray(Certificate[]::new);
        KeyStore store = empty();
        store.setKeyEntry("own", privateKey(key), NO_PASSWORD, chain);
        KeyManagerFactory factory = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        factory.init(store, NO_PASSWORD);
        return factory.getKeyManagers();
    }

    private static KeyStore empty() throws IOException, GeneralSecurityException {
        KeyStore store = KeyStore.getInstance("PKCS12");
        store.load(null, NO_PASSWORD);
        return store;
    }

    private static Collection<? extends Certificate> certificates(Path file)
            throws IOException, GeneralSecurityException {
        try (InputStream in = Files.newInputStream(file)) {
            Collection<? extends Certificate> found = CertificateFactory.getInstance("X.509").generateCertificates(in);
            if (found.isEmpty()) {
                throw new CertificateException("it is empty");
            }
            return found;
        } catch (CertificateException e) {
            throw new GeneralSecurityException(file + " holds no certificate in PEM: " + e.getMessage(), e);
        }
    }

    private static PrivateKey privateKey(Path file) throws IOException, GeneralSecurityException {
        Matcher found = KEY.matcher(Files.readString(file, StandardCharsets.ISO_8859_1));
        if (found.find()) {
            byte[] content = Base64.getMimeDecoder().decode(found.group(1));
            for (String algorithm : ALGORITHMS) {
                try {
                    return KeyFactory.getInstance(algorithm).generatePrivate(new PKCS8EncodedKeySpec(content));
                } catch (InvalidKeySpecException e) {
                    continue; // it is of another algorithm
                }
            }
        }
        throw new GeneralSecurityException(file + " holds no key in PEM that begins with BEGIN PRIVATE KEY: "
                + "openssl pkcs8 -topk8 -nocrypt makes one of others");
    }
}
