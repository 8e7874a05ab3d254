package stormwright.host;

/** A scheduler could not be run; the message is for people. */
public final class HostException extends Exception {
    HostException(String message, Throwable cause) {
        super(message, cause);
    }
}
