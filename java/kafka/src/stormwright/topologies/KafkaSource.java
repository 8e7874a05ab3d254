package stormwright.topologies;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * A Kafka broker of one node, and the producer of the numbers 0, 1, 2, … of each partition of its topic.
 *
 * <p>Arguments: a directory of the broker, its address, port, and controller port, the topic (which is also the
 * consumer group), the number of partitions, the numbers/s of all of them together, and the directory of the ledger.
 * The topic is there as soon as the journals of all partitions are. Lines on standard input: {@code produce},
 * {@code stop}, {@code rate N} with the numbers/s from then on; its end ends this JVM, and with it the broker.
 */
public final class KafkaSource {
    private static final long TICK_MS = 20;
    private static final int TICKS_PER_LOOK = 10;

    private final String topic;
    private final List<KafkaJournal> journals = new ArrayList<>();
    private final long[] committed;
    private volatile boolean produces;
    /** Numbers/s of a partition. */
    private volatile double rate;
    private long next;

    private KafkaSource(String topic, int partitions, double rateOfAll) {
        this.topic = topic;
        rate = rateOfAll / partitions;
        committed = new long[partitions];
    }

    /** Runs until standard input ends. */
    public static void main(String[] args) throws Exception {
        String broker = args[1] + ":" + args[2];
        startBroker(Path.of(args[0]), broker, args[1] + ":" + args[3]);
        KafkaSource source = new KafkaSource(args[4], Integer.parseInt(args[5]), Double.parseDouble(args[6]));
        try {
            source.run(broker, Path.of(args[7]));
        } catch (Exception e) { // the broker would keep this JVM alive
            e.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    /** Formats the storage of a new node, which is its own controller, and starts it in the background. */
    private static void startBroker(Path directory, String broker, String controller) throws IOException {
        Files.createDirectories(directory);
        Path file = directory.resolve("server.properties");
        Files.write(file, List.of(
                "process.roles=broker,controller",
                "node.id=1",
                "controller.quorum.voters=1@" + controller,
                "listeners=PLAINTEXT://" + broker + ",CONTROLLER://" + controller,
                "advertised.listeners=PLAINTEXT://" + broker,
                "controller.listener.names=CONTROLLER",
                "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
                "log.dirs=" + directory.resolve("data"),
                "auto.create.topics.enable=false",
                "offsets.topic.replication.factor=1",
                "offsets.topic.num.partitions=1",
                "transaction.state.log.replication.factor=1",
                "transaction.state.log.min.isr=1",
                "num.network.threads=1",
                "num.io.threads=2"));
        String[] format = {"format", "--cluster-id", Uuid.randomUuid().toString(), "--config", file.toString()};
        if (kafka.tools.StorageTool.execute(format, System.out) != 0) {
            throw new IOException(directory + ": the storage of the broker could not be formatted");
        }
        Thread server = new Thread(() -> kafka.Kafka.main(new String[] {file.toString()}), "broker");
        server.setDaemon(true);
        server.start();
    }

    private void run(String broker, Path directory) throws Exception {
        Map<String, Object> conf = Map.of("bootstrap.servers", broker);
        try (Admin admin = Admin.create(conf);
                KafkaProducer<String, String> producer =
                        new KafkaProducer<>(conf, new StringSerializer(), new StringSerializer())) {
            admin.createTopics(List.of(new NewTopic(topic, committed.length, (short) 1))).all().get();
            for (int partition = 0; partition < committed.length; partition++) {
                journals.add(new KafkaJournal(directory, partition, 0));
            }
            Thread input = new Thread(this::follow, "input");
            input.setDaemon(true);
            input.start();
            double due = 0;
            long last = System.nanoTime();
            for (int tick = 1; ; tick++) {
                Thread.sleep(TICK_MS);
                long now = System.nanoTime();
                due += produces ? (now - last) / 1e9 * rate : 0;
                last = now;
                for (; next < (long) due; next++) {
                    produce(producer);
                }
                if (tick % TICKS_PER_LOOK == 0) {
                    look(admin);
                }
            }
        }
    }

    /** Follows the lines of standard input. The data are worth nothing once it has ended. */
    private void follow() {
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                if (line.startsWith("rate ")) {
                    rate = Double.parseDouble(line.substring("rate ".length())) / committed.length;
                } else {
                    produces = line.equals("produce");
                }
            }
        } catch (IOException e) {
            e.printStackTrace();
        }
        Runtime.getRuntime().halt(0);
    }

    /** Produces the next number to each partition, where it is to have the offset of the same number. */
    private void produce(KafkaProducer<String, String> producer) throws IOException {
        long number = next;
        for (int partition = 0; partition < committed.length; partition++) {
            journals.get(partition).produced(number);
            producer.send(new ProducerRecord<>(topic, partition, null, Long.toString(number)), (there, error) -> {
                if (error != null || there.offset() != number) {
                    System.err.println("number " + number + " was not produced: " + (error != null ? error : there));
                    Runtime.getRuntime().halt(1);
                }
            });
        }
    }

    /** Records the committed offsets of the consumer group. */
    private void look(Admin admin) throws Exception {
        Map<TopicPartition, OffsetAndMetadata> offsets =
                admin.listConsumerGroupOffsets(topic).partitionsToOffsetAndMetadata().get();
        for (Map.Entry<TopicPartition, OffsetAndMetadata> each : offsets.entrySet()) {
            int partition = each.getKey().partition();
            for (; each.getValue() != null && committed[partition] < each.getValue().offset(); committed[partition]++) {
                journals.get(partition).committed(committed[partition]);
            }
        }
    }
}
