"""Storm, tuple by tuple.

::

    records    executors, workers, links, tuples in queues and trees under way, as arrays
    queues     creation, queueing and loss of tuples; threads that wait for space
    routes     which executor a tuple goes to; load awareness
    carrying   messaging threads and links between nodes
    trees      tuple trees: begun, acked, timed out
    working    work of threads, on dedicated or shared cores
    warm_up    speed of workers while their code is compiled
    threads    the loop of a thread, and what it sends
    start      initial state for a problem
    placing    executors in workers, and its changes; sets of equal tuples as one event
    counting   counts of tuples, trees and CPU
    engine     the event loop, and the implementation of `stormwright.simulator.engine.Engine`

Executors and the two messaging threads of each worker share the cores of their node. If it has one for each of them,
the completion time of a thread is known when it gets a tuple, so this is the only event there. After a tuple is
processed, its results are sent: into the queue of an executor of the same worker, or through the worker's sending
thread, the links of two nodes and the receiving thread there. If a queue is full, the sender waits. Differences from
Storm 2.8.3:

- Batches are of one tuple, which is Storm's default for producers and for transfer.
- An executor learns immediately, not after some ms, that a queue in another worker is full or no longer is.
- Messages wait for their link in one buffer per node; TCP has one per connection.
- A message that takes at most 10 µs on an idle link enters the next link at once; of two that arrive there within so
  short a time the later one may be first.
- Choices are shuffled again only when weights have changed; Storm also shuffles equal ones each second.
- Pending acks of a tree are counted, instead of combined by exclusive or, with the same result.
- Serialisation of a tuple is charged with the next one's work.
- A new JVM is as fast as an old one, unless `Settings.warm_up` says how it warms up: then all code of a worker gets
  faster together, with the CPU time that it has used.
- Connections between workers are there as soon as both are up.
- A node with less than a core and no quota has a slow core.

On a node with a CPU quota (`stormwright.simulator.kernel.quotas`) each thread is pinned to one of its cores. Idle
executors and sending threads wake to look for tuples, which takes CPU in any case (`Costs.poll_us`; where it was not
fitted, `Costs.polling_share`). So a quota is used up at rates far below the highest one, and tuples wait for sleeping
threads, for throttled cores and for busy cores. A receiving thread wakes when a message arrives. Garbage collection and
other work of workers is charged evenly to each period's quota. On other nodes waking is ignored, as it limits nothing
there.
"""
