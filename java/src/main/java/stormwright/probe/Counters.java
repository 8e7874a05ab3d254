package stormwright.probe;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.concurrent.atomic.AtomicLongArray;

/**
 * Cells that only grow. One thread, the owner, adds to them at the price of a plain addition; any other thread adds to
 * a second set of cells atomically, so that nothing is lost when a bolt emits from threads of its own.
 */
final class Counters {
    /** Longs on both sides of the cells: those of two threads in one cache line would slow each other down. */
    private static final int PADDING = 16;

    private static final VarHandle CELL = MethodHandles.arrayElementVarHandle(long[].class);
    private static final VarHandle OWNER;
    private static final VarHandle OTHERS;

    static {
        try {
            OWNER = MethodHandles.lookup().findVarHandle(Counters.class, "owner", Thread.class);
            OTHERS = MethodHandles.lookup().findVarHandle(Counters.class, "others", AtomicLongArray.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    private final int size;
    private final long[] own;
    /** A thread that does not see it set tries to claim it and fails: so it may be read plainly. */
    private Thread owner;
    private volatile AtomicLongArray others;

    Counters(int size) {
        this.size = size;
        own = new long[PADDING + size + PADDING];
    }

    int size() {
        return size;
    }

    /** Whether the calling thread is the owner; the first executor thread that asks becomes it. */
    boolean ownedByCaller() {
        Thread caller = Thread.currentThread();
        Thread current = owner;
        return current == caller || current == null && claim(caller);
    }

    private boolean claim(Thread caller) {
        return ExecutorThreads.isExecutor(caller) && OWNER.compareAndSet(this, null, caller);
    }

    /** Adds to a cell; {@code owned} is what {@link #ownedByCaller} said to this thread. */
    void add(boolean owned, int cell, long amount) {
        if (owned) {
            // Opaque: a plain addition on every processor, but never torn and never kept back in a register.
            CELL.setOpaque(own, PADDING + cell, (long) CELL.getOpaque(own, PADDING + cell) + amount);
        } else {
            others().getAndAdd(cell, amount);
        }
    }

    /** Copies all cells; of each cell every addition is in this copy or in a later one. */
    void read(long[] into) {
        for (int cell = 0; cell < size; cell++) {
            into[cell] = get(cell);
        }
    }

    /** One cell, as {@link #read} copies it. */
    long get(int cell) {
        AtomicLongArray shared = others;
        return (long) CELL.getOpaque(own, PADDING + cell) + (shared == null ? 0 : shared.get(cell));
    }

    private AtomicLongArray others() {
        AtomicLongArray shared = others;
        if (shared == null) {
            OTHERS.compareAndSet(this, null, new AtomicLongArray(size));
            shared = others;
        }
        return shared;
    }
}
