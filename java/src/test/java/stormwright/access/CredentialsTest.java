package stormwright.access;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class CredentialsTest {
    @TempDir
    private Path directory;

    private Path file(String content) throws IOException {
        return Files.writeString(directory.resolve("file"), content);
    }

    @Test
    void nothingToldIsNothingSaid() throws Exception {
        Credentials found = Credentials.of(Map.of("stormwright.token.file", "", "stormwright.tls.ca", " "));
        assertEquals(Optional.empty(), found.authorization());
        assertTrue(found.tls().isEmpty());
    }

    @Test
    void anotherTokenTakesTheOnesPlace() throws Exception {
        Credentials found = Credentials.of(Map.of("stormwright.token.file", file("first\n").toString()));
        assertEquals(Optional.of("Bearer first"), found.authorization());
        file("second");
        assertEquals(Optional.of("Bearer second"), found.authorization());
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "\n", "two words", "one\r\nx: y", "a\u0000b", "tök"})
    void whatIsNoTokenIsNeitherSentNorTold(String content) throws Exception {
        Credentials found = Credentials.of(Map.of("stormwright.token.file", file(content).toString()));
        String told = assertThrows(IOException.class, found::authorization).getMessage();
        assertTrue(told.contains("stormwright.token.file"), told);
        assertFalse(!content.isBlank() && told.contains(content.strip()), told);
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "nonsense", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"})
    void whatIsNoCertificateIsTold(String content) throws Exception {
        Map<String, Object> conf = Map.of("stormwright.tls.ca", file(content).toString());
        String told = assertThrows(GeneralSecurityException.class, () -> Credentials.of(conf)).getMessage();
        assertTrue(told.contains("holds no certificate in PEM"), told);
    }

    @Test
    void aKeyWithoutACertificateIsTold() {
        Map<String, Object> conf = Map.of("stormwright.tls.key", "/no/such/key");
        String told = assertThrows(GeneralSecurityException.class, () -> Credentials.of(conf)).getMessage();
        assertTrue(told.contains("stormwright.tls.cert"), told);
    }
}
