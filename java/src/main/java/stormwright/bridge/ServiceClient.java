package stormwright.bridge;

import java.io.IOException;
import java.net.ConnectException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpTimeoutException;
import java.nio.channels.UnresolvedAddressException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Locale;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import stormwright.access.Credentials;

/**
 * One request at a time, with a deadline over the whole of it: name resolution, connecting, and reading a body however
 * slowly it comes.
 */
public final class ServiceClient {
    private static final int MAX_ANSWER_BYTES = 32 << 20;
    private static final int FREE_WITHIN_MS = 50;
    private static final int QUOTED_CHARACTERS = 200;

    private final URI service;
    private final Credentials credentials;
    private final HttpClient http;
    private final ThreadPoolExecutor thread;

    /**
     * Makes a client.
     *
     * @param service where requests are posted to
     * @param deadlineMs how long one exchange may take at most
     * @param credentials how the service knows us, and we know it
     */
    public ServiceClient(URI service, long deadlineMs, Credentials credentials) {
        this.service = service;
        this.credentials = credentials;
        // HTTP/1.1: no upgrade to negotiate; no proxy: what the JVM was told about proxies is not about this.
        HttpClient.Builder building = HttpClient.newBuilder()
                .version(HttpClient.Version.HTTP_1_1)
                .connectTimeout(Duration.ofMillis(deadlineMs))
                .proxy(HttpClient.Builder.NO_PROXY)
                .followRedirects(HttpClient.Redirect.NEVER);
        credentials.tls().ifPresent(building::sslContext);
        http = building.build();
        thread = new ThreadPoolExecutor(0, 1, 30, TimeUnit.SECONDS, new SynchronousQueue<>(), task -> {
            Thread created = new Thread(task, "stormwright-service-client");
            created.setDaemon(true);
            return created;
        }, ServiceClient::handOver);
    }

    /** The thread may need a moment after an exchange is over until it takes the next. */
    private static void handOver(Runnable exchange, ThreadPoolExecutor thread) {
        try {
            if (thread.getQueue().offer(exchange, FREE_WITHIN_MS, TimeUnit.MILLISECONDS)) {
                return;
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        throw new RejectedExecutionException("the thread is busy");
    }

    /**
     * Posts a JSON document and returns the body of the answer.
     *
     * @param json the document
     * @param limitMs how long that may take
     * @throws ServiceException there is no answer, or none that says 200
     */
    public String post(String json, long limitMs) throws ServiceException {
        HttpRequest.Builder request = HttpRequest.newBuilder(service)
                .header("Content-Type", "application/json")
                .timeout(Duration.ofMillis(limitMs))
                .POST(HttpRequest.BodyPublishers.ofString(json));
        try {
            credentials.authorization().ifPresent(value -> request.header("Authorization", value));
        } catch (IOException e) {
            throw new ServiceException(e.getMessage(), e);
        }
        HttpResponse<byte[]> response = await(start(request.build()), limitMs);
        String body = new String(response.body(), StandardCharsets.UTF_8);
        if (response.statusCode() != 200) {
            throw new ServiceException(("HTTP " + response.statusCode() + " " + shorten(body)).strip());
        }
        return body;
    }

    private Future<HttpResponse<byte[]>> start(HttpRequest request) throws ServiceException {
        try {
            return thread.submit(() -> http.send(request, info -> new LimitedBody(MAX_ANSWER_BYTES)));
        } catch (RejectedExecutionException e) {
            throw new ServiceException("the exchange before is still hanging", e);
        }
    }

    private HttpResponse<byte[]> await(Future<HttpResponse<byte[]>> answer, long limitMs) throws ServiceException {
        try {
            return answer.get(limitMs, TimeUnit.MILLISECONDS);
        } catch (TimeoutException e) {
            throw new ServiceException("no whole answer within " + limitMs + " ms", e);
        } catch (ExecutionException e) {
            throw new ServiceException(reason(e.getCause(), limitMs), e.getCause());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new ServiceException("interrupted", e);
        } finally {
            answer.cancel(true);
        }
    }

    private String reason(Throwable failure, long limitMs) {
        if (failure instanceof HttpTimeoutException) {
            return "no whole answer within " + limitMs + " ms";
        }
        if (failure instanceof ConnectException) {
            return connectReason(failure);
        }
        return failure.getMessage() == null ? failure.toString() : failure.getMessage();
    }

    /** The exception on top has no message of its own; it does not say either whether the name is known. */
    private String connectReason(Throwable failure) {
        for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
            if (cause instanceof UnresolvedAddressException) {
                return "unknown host " + service.getHost();
            }
            if (cause.getMessage() != null) {
                return cause.getMessage().toLowerCase(Locale.ROOT);
            }
        }
        return "connection refused";
    }

    private static String shorten(String text) {
        String line = text.strip().replaceAll("\\s+", " ");
        return line.length() <= QUOTED_CHARACTERS ? line : line.substring(0, QUOTED_CHARACTERS) + "…";
    }
}
