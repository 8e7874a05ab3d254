#!/bin/sh
# The java of Storm's supervisors (JAVA_HOME/bin/java): starts workers from warm standby JVMs. STORMWRIGHT_JAVA is the
# real java, STORMWRIGHT_STANDBYS the number of standbys per set of JVM options (0: none), STORMWRIGHT_STANDBY_DIR their
# directory. All other commands, and workers that no standby fits, are started with the real java.
#
# A standby is a JVM that has loaded Storm's worker (stormwright.Standby). It takes over the command line, environment
# and control groups of this process, which then waits for its end, as the supervisor expects. The first worker with a
# set of options is started cold; its loaded classes are recorded for the standbys. What the directory holds:
#
#   off, log            why there are no standbys on this node; what happened
#   supervisor          process id of the supervisor
#   options/KEY/        flags, class_path, heap, classes: of a set of options; renewing: link to the id of the process that renews
#   jvms/KEY.N/         one standby, its working directory: pid, out; ready or taken, then running; fifos request, answer, end
#
# Storm runs each worker under a JVM of its own, the LogWriter, which only copies what the worker prints; here it goes to
# a file, and that JVM is not started.

if [ -z "$STORMWRIGHT_JAVA" ]; then
    echo "$0: STORMWRIGHT_JAVA is not set: set it to the path of the java to use" >&2
    exit 2
fi
count=${STORMWRIGHT_STANDBYS:-0}
root=${STORMWRIGHT_STANDBY_DIR:-/tmp/stormwright-standby-${USER:-$LOGNAME}}
# Workers inherit it from the supervisor: their probes report standbys.
[ "$count" -eq 0 ] || export STORMWRIGHT_STANDBY_DIR="$root"

# Seconds: until a new worker has settled and its successor may be loaded; for a standby to accept.
settle_s=${STORMWRIGHT_STANDBY_DELAY:-20}
accept_s=3
# Sets of options that have standbys: those of the latest workers.
most_options=3
# The largest heap of a standby whose worker has less.
most_heap_mb=31744

log() {
    [ -z "$(find "$root/log" -size +1024k 2>/dev/null)" ] || mv "$root/log" "$root/log.1"
    echo "$(date '+%F %T') $*" >>"$root/log"
}

# Whether a process runs a standby.
is_standby() {
    grep -q stormwright.Standby "/proc/$1/cmdline" 2>/dev/null
}

# Moves process $1 to the control groups of process $2.
join_groups() {
    cmp -s "/proc/$1/cgroup" "/proc/$2/cgroup" && return
    while IFS=: read -r _ controllers path; do
        group=/sys/fs/cgroup/${controllers#name=}$path
        [ -n "$controllers" ] || [ ! -d /sys/fs/cgroup/unified ] || group=/sys/fs/cgroup/unified$path
        echo "$1" >"$group/cgroup.procs" || return 1
    done <"/proc/$2/cgroup" 2>/dev/null
    cmp -s "/proc/$1/cgroup" "/proc/$2/cgroup"
}

# Starts a process that loads standbys for the options $1 in the background, after $2 seconds.
renew() {
    setsid "$0" --renew-standbys "$1" "$2" </dev/null >/dev/null 2>&1 3>&- 4>&- &
}

renew_standbys() {
    key=$1 options=$root/options/$1
    if ! ln -s $$ "$options/renewing" 2>/dev/null; then
        kill -0 "$(readlink "$options/renewing")" 2>/dev/null && return
        rm -f "$options/renewing"
        ln -s $$ "$options/renewing" 2>/dev/null || return
    fi
    read -r supervisor <"$root/supervisor"
    # Before it sleeps: in the group of a worker it would hinder the removal of the group.
    joined=yes
    if ! join_groups $$ "$supervisor"; then
        joined=""
        ! kill -0 "$supervisor" 2>/dev/null || log "no standby is loaded: the control groups of process $supervisor may not be joined"
    fi
    [ -z "$joined" ] || sleep "$2"
    if [ -z "$joined" ] || [ -e "$root/off" ] || ! kill -0 "$supervisor" 2>/dev/null; then
        rm -f "$options/renewing"
        return
    fi
    idle=0
    for jvm in "$root/jvms/$key".*; do
        [ -d "$jvm" ] && [ ! -e "$jvm/taken" ] && idle=$((idle + 1))
    done
    number=0
    while [ "$idle" -lt "$count" ]; do
        while ! mkdir "$root/jvms/$key.$number" 2>/dev/null; do
            number=$((number + 1))
        done
        idle=$((idle + 1))
        setsid "$0" --run-standby "$key" "$number" "$supervisor" </dev/null >/dev/null 2>&1 &
    done
    rm -f "$options/renewing"
    # Standbys of options that are out of use make room.
    # shellcheck disable=SC2012 # names are ours
    for old in $(ls -t "$root/options" | tail -n "+$((most_options + 1))"); do
        rm -rf "$root/options/$old"
        for jvm in "$root/jvms/$old".*; do
            [ -e "$jvm/ready" ] && mv "$jvm/ready" "$jvm/taken" 2>/dev/null && kill -9 "$(cat "$jvm/pid")"
        done
    done
}

# Parent of a standby: starts it, waits for its end, and reports that to the process whose place it has taken.
run_standby() {
    key=$1 options=$root/options/$1 jvm=$root/jvms/$1.$2 supervisor=$3
    cd "$jvm" || exit
    mkfifo -m 600 request answer end
    mkdir artifacts logs tmp
    read -r heap <"$options/heap"
    read -r class_path <"$options/class_path"
    set --
    while IFS= read -r flag; do
        set -- "$@" "$flag"
    done <"$options/flags"
    nice=
    [ "$(id -u)" != 0 ] || nice="nice -n 10" # only root can raise the priority again
    $nice "$STORMWRIGHT_JAVA" "$@" "-Xmx$heap" \
        --add-opens=java.base/java.lang=ALL-UNNAMED --add-opens=java.base/jdk.internal.loader=ALL-UNNAMED \
        -DLog4jContextSelector=org.apache.logging.log4j.core.selector.BasicContextSelector \
        -Dworkers.artifacts="$jvm/logs" -Dstorm.id=standby -Dworker.port=0 -Dlogfile.name=worker.log \
        -Djava.io.tmpdir="$jvm/tmp" -Dstormwright.class.path="$class_path" -cp "$class_path" \
        stormwright.Standby "$jvm" "$supervisor" "$options/classes" >out 2>&1 &
    echo $! >pid
    wait $!
    code=$?
    [ -e off ] && mv off "$root/off"
    echo "$code $([ -e running ] && echo running)" 1<>end
    log "standby $(cat pid) has ended, exit code $code$([ -e running ] || echo "; printed: $(tail -n 20 out)")"
    # It was killed while it waited, or the supervisor was started again while it was loaded.
    read -r current <"$root/supervisor"
    again=
    [ ! -e ready ] && [ "$supervisor" = "$current" ] || again=yes
    cd /
    rm -rf "$jvm"
    [ -z "$again" ] || renew "$key" "$settle_s"
}

# Removes what an earlier start of the node has left, and loads standbys for the options of its latest workers.
supervisor_starts() {
    rm -f "$root/off"
    echo $$ >"$root/supervisor"
    for jvm in "$root"/jvms/*; do
        pid=
        read -r pid 2>/dev/null <"$jvm/pid"
        is_standby "${pid:-none}" || rm -rf "$jvm"
    done
    # Older versions made a directory of that name, in place of a link.
    rm -rf "$root"/options/*/renewing
    for known in "$root"/options/*; do
        [ -d "$known" ] && renew "${known##*/}" 5
    done
}

# Makes the directory, and returns whether it is ours alone.
make_root() {
    [ "$count" -gt 0 ] || return 1
    [ -d "$root" ] || mkdir -p -m 700 "$root"
    [ -O "$root" ] && [ ! -L "$root" ] && mkdir -p "$root/options" "$root/jvms"
}

case $1 in
    --renew-standbys) renew_standbys "$2" "$3"; exit ;;
    --run-standby) run_standby "$2" "$3" "$4"; exit ;;
esac

wrapped="" artifacts="" topology="" port="" worker="" local_dir="" flags="" class_path="" heap="" previous=""
newline='
'
for argument; do
    if [ -z "$wrapped" ]; then
        case $argument in
            -Dworkers.artifacts=*) artifacts=${argument#*=} ;;
            -Dstorm.id=*) topology=${argument#*=} ;;
            -Dworker.port=*) port=${argument#*=} ;;
            -Dworker.id=*) worker=${argument#*=} ;;
            -Dstorm.local.dir=*) local_dir=${argument#*=} ;;
            org.apache.storm.LogWriter) wrapped=yes ;;
            org.apache.storm.daemon.supervisor.Supervisor)
                make_root && supervisor_starts
                break
                ;;
        esac
        continue
    fi
    case $argument in
        -Xmx*) heap=${argument#-Xmx} ;;
        -Xms*) ;; # a standby has not been used yet
        # Different for each worker, and taken over by a standby.
        -Dlogging.sensitivity=* | -Dlogfile.name=* | -Dstorm.home=* | -Dworkers.artifacts=* | -Dstorm.id=*) ;;
        -Dworker.id=* | -Dworker.port=* | -Dstorm.log.dir=* | -DLog4jContextSelector=* | -Dstorm.local.dir=*) ;;
        -Dworker.memory_limit_mb=* | -Djava.library.path=* | -Djava.io.tmpdir=*) ;;
        -cp) ;;
        -*) flags=$flags$argument$newline ;;
        *)
            [ "$previous" = -cp ] || continue
            class_path=$argument
            break
            ;;
    esac
    previous=$argument
done

[ "$wrapped" ] || exec "$STORMWRIGHT_JAVA" "$@"

while [ "$1" != org.apache.storm.LogWriter ]; do
    shift
done
shift 2 # LogWriter, and the java that it would start
logs=$artifacts/$topology/$port
mkdir -p "$logs"
common=${class_path%%:"$local_dir"/supervisor/stormdist/*}

# Options that name the worker, or that reserve memory, are no options for a standby.
case $flags in
    *"$port"* | *"$topology"* | *"$worker"* | *AlwaysPreTouch* | *UseLargePages* | *-agentlib:jdwp*) count=0 ;;
esac
[ "$common" != "$class_path" ] || count=0

if make_root && [ ! -e "$root/off" ]; then
    [ -e "$root/supervisor" ] || echo $PPID >"$root/supervisor"
    key=$(printf '%s' "$flags$common" | cksum)
    key=${key%% *}-${key##* }
    options=$root/options/$key
    for ready in "$root/jvms/$key".*/ready; do
        jvm=${ready%/ready}
        mv "$ready" "$jvm/taken" 2>/dev/null || continue # there is none, or another worker has taken it
        read -r pid <"$jvm/pid"
        exec 3<>"$jvm/end" 4<>"$jvm/answer" # before the request: what it writes stays in an open fifo
        if join_groups "$pid" $$; then
            [ "$(id -u)" != 0 ] || (cd "/proc/$pid/task" && exec renice -n "$(nice)" -p -- *) >/dev/null 2>&1
            echo $$ 1<>"$jvm/request"
            accepted=$(timeout "$accept_s" head -n 1 <&4)
        else
            accepted="its control groups cannot be changed"
        fi
        if [ "$accepted" = yes ]; then
            renew "$key" "$settle_s"
            [ ! -e "$logs/worker.out" ] || mv "$logs/worker.out" "$logs/worker.out.1"
            mv "$jvm/out" "$logs/worker.out"
            read -r code running <&3
            # A worker that was killed while it started must not come back: the supervisor has given it up.
            [ -z "$running" ] && [ "$code" -le 128 ] || exit "$code"
            accepted="it ended while it became the worker"
        fi
        exec 3>&- 4>&-
        log "standby $pid is not used for $topology on $port: ${accepted:-no answer within $accept_s s}"
        kill -9 "$pid" 2>/dev/null
    done
    case $heap in
        *[gG]) heap_mb=$((1024 * ${heap%?})) ;;
        *[mM]) heap_mb=$((${heap%?})) ;;
        *) heap_mb=0 ;; # other units, or none: no standbys
    esac
    if [ "$heap_mb" -gt 0 ] && mkdir -p "$options"; then
        touch "$options"
        # A standby has more than the workers so far, and keeps to the size of its worker. From 32 GB on pointers would
        # be twice as long.
        read -r largest 2>/dev/null <"$options/heap"
        if ! [ "$heap_mb" -le "${largest%m}" ] 2>/dev/null; then
            standby_mb=$((4 * heap_mb))
            [ "$standby_mb" -le "$most_heap_mb" ] || standby_mb=$most_heap_mb
            [ "$standby_mb" -ge "$heap_mb" ] || standby_mb=$heap_mb
            echo "${standby_mb}m" >"$options/heap"
        fi
        if [ ! -e "$options/flags" ]; then
            printf '%s' "$flags" >"$options/flags"
            echo "$common" >"$options/class_path"
            # Behind all other options: one of them may disable logs.
            for argument; do
                shift
                [ "$argument" != -cp ] || set -- "$@" "-Xlog:class+load=info:file=$options/classes:none"
                set -- "$@" "$argument"
            done
        fi
        renew "$key" "$settle_s"
    fi
fi
exec "$STORMWRIGHT_JAVA" "$@" >>"$logs/worker.out" 2>&1
