#define _GNU_SOURCE /* SOCK_CLOEXEC */
#include "synergy_turn.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define HOUR 3600000000LL
#define LONGEST_RETRY 5000000LL
#ifndef FIRST_RETRY
#define FIRST_RETRY 100000LL /* us, doubling to the longest */
#endif
#ifndef ANSWER_WITHIN
#define ANSWER_WITHIN 1000000LL /* a broker that lives */
#endif
#ifndef LIFE_EVERY
#define LIFE_EVERY 10000000LL /* after which one that grants nothing is asked whether it lives */
#endif
enum { NONE, MEMORY_CAP, OTHER };

static long long now_us(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000LL + at.tv_nsec / 1000;
}

static long long bounded(long long us) { return us < 0 ? 0 : us > HOUR ? HOUR : us; }

/* Forgets the broker: the program runs on. */
static void lose(struct synergy_turn *t) {
    if (t->fd >= 0) close(t->fd);
    t->fd = -1;
    t->welcome = t->holding = t->granted = 0;
    t->len = 0;
    t->retry_at = now_us() + t->pause;
}

static void say(struct synergy_turn *t, const char *format, ...) {
    char line[256];
    va_list values;
    va_start(values, format);
    int n = vsnprintf(line, sizeof line, format, values);
    va_end(values);
    if (t->fd >= 0 && send(t->fd, line, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT) != n) lose(t);
}

/* The value of a name, up to the end of the line. Quotes within a text are escaped, so that no text has a name in it. */
static const char *value(const char *line, const char *name) {
    const char *at = strstr(line, name);
    return at == NULL ? "" : at + strlen(name) + strspn(at + strlen(name), " \t:");
}

static int is(const char *line, const char *name, const char *want) {
    return strncmp(value(line, name), want, strlen(want)) == 0;
}

static void obey(struct synergy_turn *t, const char *line) {
    if (is(line, "\"type\"", "\"WELCOME\"")) {
        t->welcome = 1;
        t->may_use_mib = strtol(value(line, "\"mem_mib\""), NULL, 10);
        t->pause = FIRST_RETRY;
    } else if (is(line, "\"type\"", "\"ERR\"")) {
        t->code = is(line, "\"code\"", "\"mem-cap\"") ? MEMORY_CAP : OTHER;
        t->pause = LONGEST_RETRY; /* it will hardly think better of it soon */
        lose(t);
    } else if (strtoll(value(line, "\"seq\""), NULL, 10) != t->seq) {
        return; /* of a request that is over */
    } else if (is(line, "\"type\"", "\"GRANT\"")) {
        t->granted = 1;
        t->yield = 0;
        t->lease_end = now_us() + bounded(strtoll(value(line, "\"lease_us\""), NULL, 10));
    } else if (is(line, "\"type\"", "\"YIELD\"")) {
        t->yield = 1;
    }
}

/* Does what the broker has said, and waits at most so long for it to say something. */
static void hear(struct synergy_turn *t, long long within_us) {
    struct pollfd at = {.fd = t->fd, .events = POLLIN};
    if (t->fd < 0 || poll(&at, 1, (int)((within_us + 999) / 1000)) <= 0) return;
    ssize_t n = recv(t->fd, t->line + t->len, sizeof t->line - 1 - t->len, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) { /* it is gone, or says more than a line may have */
        lose(t);
        return;
    }
    t->len += (unsigned)n;
    t->line[t->len] = 0;
    for (char *end; t->fd >= 0 && (end = memchr(t->line, '\n', t->len)) != NULL;) {
        *end = 0;
        obey(t, t->line);
        if (t->fd < 0) return;
        t->len -= (unsigned)(end + 1 - t->line);
        memmove(t->line, end + 1, t->len + 1);
    }
}

static int dial(const char *path) {
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    if (path == NULL || strlen(path) >= sizeof to.sun_path) return -1;
    strcpy(to.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Introduces the program, if it is time to try. The answer is read when it is there. */
static void introduce(struct synergy_turn *t, long memory_mib) {
    if (t->fd >= 0 || t->path == NULL || now_us() < t->retry_at) return;
    t->retry_at = now_us() + t->pause;
    t->pause = t->pause * 2 > LONGEST_RETRY ? LONGEST_RETRY : t->pause * 2;
    t->fd = dial(t->path);
    say(t, "{\"v\":1,\"type\":\"HELLO\",\"pid\":%ld,\"kind\":\"other\",\"mem_mib\":%ld}\n", (long)t->pid, memory_mib);
}

/* Asks the broker on a connection of its own whether it lives: a stopped process keeps its sockets open. */
static void see(struct synergy_turn *t) {
    static const char hello[] = "{\"v\":1,\"type\":\"HELLO\"}\n";
    char answer;
    struct pollfd at = {.fd = dial(t->path), .events = POLLIN};
    int lives = at.fd >= 0 && send(at.fd, hello, sizeof hello - 1, MSG_NOSIGNAL) > 0 &&
                poll(&at, 1, (int)(ANSWER_WITHIN / 1000)) > 0 && recv(at.fd, &answer, 1, MSG_DONTWAIT) > 0;
    if (at.fd >= 0) close(at.fd);
    if (!lives) lose(t);
}

int synergy_turn_open(struct synergy_turn *t, const char *path, long memory_mib) {
    struct synergy_turn fresh = {.drain = t->drain, .of_drain = t->of_drain, .fd = -1, .pid = getpid(),
                                 .pause = FIRST_RETRY, .path = path == NULL ? getenv("SYNERGY_TURN_SOCK") : path};
    *t = fresh;
    introduce(t, memory_mib < 0 ? 0 : memory_mib);
    for (long long end = now_us() + ANSWER_WITHIN; t->fd >= 0 && !t->welcome && now_us() < end;)
        hear(t, end - now_us());
    return t->code == MEMORY_CAP ? -1 : 0;
}

void synergy_turn_begin(struct synergy_turn *t, long long estimate_us) {
    t->steps++;
    if (t->pid != getpid()) { /* a child: to the broker it is nobody, and its parent's death must be seen */
        t->path = NULL;
        lose(t);
    }
    introduce(t, 0);
    hear(t, 0);
    if (!t->holding && t->welcome) {
        long long asked = now_us();
        t->granted = 0;
        say(t, "{\"v\":1,\"type\":\"ACQ\",\"seq\":%lld,\"est_us\":%lld}\n", ++t->seq,
            bounded(estimate_us > 0 ? estimate_us : t->usual));
        for (long long looked = asked; t->welcome && !t->granted;) {
            hear(t, LIFE_EVERY);
            if (!t->granted && now_us() - looked >= LIFE_EVERY) {
                see(t);
                looked = now_us();
            }
        }
        t->waited_us += now_us() - asked;
        t->holding = t->granted;
        t->grants += t->granted;
        t->used = 0;
    }
    t->unmanaged += !t->holding;
    t->began = now_us();
}

/* Counts a step that is over. */
static void count(struct synergy_turn *t) {
    long long took = now_us() - t->began;
    t->used += took;
    t->usual += t->usual == 0 ? took : (took - t->usual) / 8;
}

void synergy_turn_end(struct synergy_turn *t) {
    if (t->drain != NULL && t->holding) t->drain(t->of_drain);
    count(t);
    if (t->holding && t->pid == getpid()) {
        t->holding = 0;
        say(t, "{\"v\":1,\"type\":\"REL\",\"seq\":%lld,\"used_us\":%lld}\n", t->seq, bounded(t->used));
    }
}

void synergy_turn_next(struct synergy_turn *t, long long estimate_us) {
    hear(t, 0);
    /* the broker lets a lease end within the last step that it has room for */
    if (t->holding && !t->yield && now_us() < t->lease_end) {
        count(t);
        t->steps++;
        t->began = now_us();
        return;
    }
    synergy_turn_end(t);
    synergy_turn_begin(t, estimate_us);
}

int synergy_turn_wanted(struct synergy_turn *t, long long within_us) {
    long long left, end = now_us() + within_us;
    if (t->holding && end > t->lease_end) end = t->lease_end;
    do {
        left = end - now_us();
        hear(t, left < 0 ? 0 : left);
    } while (t->holding && !t->yield && now_us() < end);
    return !t->holding || t->yield || now_us() >= t->lease_end;
}

void synergy_turn_close(struct synergy_turn *t) {
    if (t->holding) synergy_turn_end(t);
    t->path = NULL;
    lose(t);
}
