package stormwright.topologies;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/** An English book, so that words come with the skewed frequencies that they have. */
final class Book {
    private static final String OURS = "/stormwright/alice.txt";

    private Book() {
    }

    /** The lines of a text file that are not blank; of the book in our jar where {@code path} is empty. */
    static String[] sentences(String path) {
        try (InputStream bytes = open(path);
                BufferedReader reader = new BufferedReader(new InputStreamReader(bytes, StandardCharsets.UTF_8))) {
            String[] lines = reader.lines().map(String::strip).filter(line -> !line.isEmpty()).toArray(String[]::new);
            if (lines.length == 0) {
                throw new IllegalArgumentException("no text in " + path);
            }
            return lines;
        } catch (IOException e) {
            throw new UncheckedIOException("cannot read " + path, e);
        }
    }

    private static InputStream open(String path) throws IOException {
        return path.isEmpty() ? Book.class.getResourceAsStream(OURS) : Files.newInputStream(Path.of(path));
    }

    /** All words of a text in their order. */
    static String[] words(String path) {
        List<String> words = new ArrayList<>();
        for (String sentence : sentences(path)) {
            addWords(sentence, words);
        }
        return words.toArray(String[]::new);
    }

    /** Adds the words of a sentence in lower case; a word is a run of letters and of apostrophes inside it. */
    static void addWords(String sentence, List<String> words) {
        int start = -1;
        for (int i = 0; i <= sentence.length(); i++) {
            boolean inside = i < sentence.length()
                    && (Character.isLetter(sentence.charAt(i)) || start >= 0 && isApostropheInWord(sentence, i));
            if (inside && start < 0) {
                start = i;
            } else if (!inside && start >= 0) {
                words.add(sentence.substring(start, i).toLowerCase(Locale.ROOT));
                start = -1;
            }
        }
    }

    private static boolean isApostropheInWord(String sentence, int i) {
        return sentence.charAt(i) == '\'' && i + 1 < sentence.length() && Character.isLetter(sentence.charAt(i + 1));
    }
}
