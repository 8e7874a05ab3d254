package stormwright.topologies;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class BookTest {
    @TempDir
    private Path directory;

    @Test
    void wordsOfASentence() {
        List<String> words = new ArrayList<>();
        Book.addWords("`Don't,' SAID the Mouse--très 'tis o'clock'", words);
        assertEquals(List.of("don't", "said", "the", "mouse", "très", "tis", "o'clock"), words);
    }

    @Test
    void ourBookIsSkewedAsEnglishIs() {
        assertEquals(2732, Book.sentences("").length);
        Map<String, Long> counts = Arrays.stream(Book.words(""))
                .collect(Collectors.groupingBy(Function.identity(), Collectors.counting()));
        assertEquals(1642, counts.get("the")); // counted with grep -oiw the | wc -l
        assertEquals("the", counts.entrySet().stream().max(Map.Entry.comparingByValue()).orElseThrow().getKey());
    }

    @Test
    void anyTextWillDo() throws IOException {
        Path text = Files.writeString(directory.resolve("text"), "one two\n\n  three\n");
        assertEquals(List.of("one two", "three"), List.of(Book.sentences(text.toString())));
        assertEquals(List.of("one", "two", "three"), List.of(Book.words(text.toString())));
        Files.writeString(text, "\n");
        assertThrows(IllegalArgumentException.class, () -> Book.sentences(text.toString()));
    }
}
