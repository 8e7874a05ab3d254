"""Storm, tuple by tuple.

::

    records    executors, workers, links, tuples in queues and trees under way, as arrays
    queues     tuples made, queued, taken and lost; who waits for room
    routes     to which executor a tuple goes, and when that is looked at anew
    sending    what an executor emits, and how far that goes at once
    carrying   threads of workers and links between nodes
    trees      tuple trees: begun, acked, timed out
    working    a thread works, on a core of its own or on cores that it shares
    threads    what a thread does next
    events     the loop, and what the cluster is told to do
    layout     all of this for a problem under a placement; sets of like tuples as one event
    engine     `stormwright.simulator.engine.Engine` by it

Executors and the two messaging threads of each worker share the cores of their node. Where it has one for each of them
there is nothing to share: when a thread is done is known as it gets a tuple, which so is the one event there. A tuple
is served, then what it sets off is sent: into the queue of an executor of the same worker, or through the worker's
sending thread, the links of two nodes and the receiving thread there. Where a queue is full, who sends waits. What
differs from Storm 2.8.3:

- Batches are of one tuple, which is Storm's default for producers and for transfer.
- An executor learns at once, and not after some ms, that a queue in another worker is full or no longer is.
- A message that waits for its link does so in a buffer of its node; TCP has one for each connection.
- A message that an idle link takes at most 10 µs for has its turn on the next link at once; of two that come to that
  within so short a time the one that was sent later may be first.
- Shuffled choices are drawn anew only when weights have changed; Storm shuffles equal ones each second, too.
- What is to be acked of a tree is counted, instead of combined by exclusive or, with the same outcome.
- What a tuple costs to serialise is paid with the next one's work.
- The timeouts of all spouts of a topology are looked at in the same instants.
- A JVM that was started is as fast as an old one.
- A node with less than a core and no quota has a slow core.

On a node with a quota of CPU (`stormwright.simulator.kernel.quotas`) threads are each on one of its cores and stay
there. An executor and a sending thread that find nothing sleep for a millisecond and wake, which takes CPU
(`Costs.polling_share`) whether there is something or not. So a quota is used up at rates far below the highest one,
and tuples wait for threads that sleep, for cores that are held and for cores that others have. A receiving thread
wakes when a message comes. Garbage collection and all else that workers do comes off each period's quota evenly. On
other nodes what threads take to wake is left out: nothing that is scarce goes by it.
"""
