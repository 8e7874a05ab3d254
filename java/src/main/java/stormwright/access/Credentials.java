package stormwright.access;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.util.Map;
import java.util.Optional;
import javax.net.ssl.SSLContext;

/**
 * How the service knows us, and we know it: a token, our certificate, and whose certificates we take.
 *
 * <p>Configuration: {@code stormwright.token.file} holds a token of role bridge, or probe; it is read anew for every
 * request, so that another one can take its place. {@code stormwright.tls.ca}: the authority of the service's
 * certificate, by default those that the JVM knows. {@code stormwright.tls.cert} and {@code stormwright.tls.key}: our
 * own certificate and key. All of these are paths of files in PEM, on this host.
 */
public final class Credentials {
    private static final String TOKEN_FILE = "stormwright.token.file";
    private static final String AUTHORITY = "stormwright.tls.ca";
    private static final String CERTIFICATE = "stormwright.tls.cert";
    private static final String KEY = "stormwright.tls.key";
    private static final Credentials NONE = new Credentials(null, null);

    private final Path tokenFile;
    private final SSLContext tls;

    private Credentials(Path tokenFile, SSLContext tls) {
        this.tokenFile = tokenFile;
        this.tls = tls;
    }

    /** For a service that asks nobody who he is. */
    public static Credentials none() {
        return NONE;
    }

    /**
     * As a configuration tells.
     *
     * @throws IOException a file cannot be read
     * @throws GeneralSecurityException one holds no certificate, or no key that belongs to it
     */
    public static Credentials of(Map<String, Object> conf) throws IOException, GeneralSecurityException {
        Path authority = path(conf, AUTHORITY);
        Path certificate = path(conf, CERTIFICATE);
        Path key = path(conf, KEY);
        if ((certificate == null) != (key == null)) {
            throw new GeneralSecurityException(CERTIFICATE + " and " + KEY + " belong together: one of them is missing");
        }
        SSLContext tls = authority == null && key == null ? null : Pem.context(authority, certificate, key);
        return new Credentials(path(conf, TOKEN_FILE), tls);
    }

    /**
     * The value of the header {@code Authorization}; none without a token.
     *
     * @throws IOException the token cannot be read
     */
    public Optional<String> authorization() throws IOException {
        if (tokenFile == null) {
            return Optional.empty();
        }
        String token;
        try {
            token = Files.readString(tokenFile, StandardCharsets.US_ASCII).strip();
        } catch (IOException e) {
            throw new IOException(TOKEN_FILE + " " + tokenFile + " cannot be read: " + e.getClass().getSimpleName(), e);
        }
        // A header takes no line breaks, and the exception of who is given one would tell the token.
        if (token.isEmpty() || !token.chars().allMatch(c -> c > ' ' && c < 0x7f)) {
            throw new IOException(TOKEN_FILE + " " + tokenFile + " holds no token, which is one word");
        }
        return Optional.of("Bearer " + token);
    }

    /** What TLS is spoken by; none for what the JVM takes by itself. */
    public Optional<SSLContext> tls() {
        return Optional.ofNullable(tls);
    }

    private static Path path(Map<String, Object> conf, String key) {
        Object value = conf.get(key);
        return value == null || value.toString().isBlank() ? null : Path.of(value.toString());
    }
}
