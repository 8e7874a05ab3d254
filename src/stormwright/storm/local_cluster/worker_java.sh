#!/bin/sh
# The java that supervisors start workers with. Storm runs each worker under a JVM of its own, the LogWriter, which only
# copies what the worker prints; starting it is a fifth of what a worker's start costs. Here a file takes the print.
for argument; do
    case $argument in
        -Dworkers.artifacts=*) artifacts=${argument#*=} ;;
        -Dstorm.id=*) topology=${argument#*=} ;;
        -Dworker.port=*) port=${argument#*=} ;;
        org.apache.storm.LogWriter) wrapped=yes; break ;;
    esac
done
if [ "$wrapped" ]; then
    while [ "$1" != org.apache.storm.LogWriter ]; do
        shift
    done
    shift 2 # LogWriter, and the java that it would start
    mkdir -p "$artifacts/$topology/$port"
    exec "$STORMWRIGHT_JAVA" "$@" >>"$artifacts/$topology/$port/worker.out" 2>&1
fi
exec "$STORMWRIGHT_JAVA" "$@"
