package stormwright.bridge;

/** The service gave no answer that can be used; the message says why, in words for a topology's status. */
public final class ServiceException extends Exception {
    private static final long serialVersionUID = 1L;

    /** Makes one. */
    public ServiceException(String message) {
        super(message);
    }

    /** Makes one with the failure behind it. */
    public ServiceException(String message, Throwable cause) {
        super(message, cause);
    }
}
