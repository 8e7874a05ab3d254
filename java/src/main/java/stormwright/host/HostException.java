package stormwright.host;

/** A scheduler could not be run; the message is for people. */
public final class HostException extends Exception {
    /** Makes one with what is behind it, or null. */
    public HostException(String message, Throwable cause) {
        super(message, cause);
    }
}
