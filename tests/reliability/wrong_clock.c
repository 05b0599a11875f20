/* Shows a process another time of day than it is: preloaded, it adds what a mapped file says to the realtime clock.

   The monotonic clock and all waits are left alone, as on a real host whose clock is set. libfaketime 0.9.10 with
   FAKETIME_DONT_FAKE_MONOTONIC lets each clock_nanosleep on the monotonic clock fail with EINVAL, and with it Python's
   time.sleep. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* Nanoseconds ahead; parts per million gained since that monotonic time. */
struct told { volatile int64_t ahead, gained_ppm, since; };
static struct told *told;

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("WRONG_CLOCK_FILE");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  void *at = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *told, PROT_READ, MAP_SHARED, file, 0);
  if (at != MAP_FAILED) told = at;
  if (file >= 0) close(file);
}

static int64_t ns(clockid_t clock) {
  struct timespec t;
  syscall(SYS_clock_gettime, clock, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int64_t wrong(void) {
  if (!told) return ns(CLOCK_REALTIME);
  return ns(CLOCK_REALTIME) + told->ahead + (int64_t)((ns(CLOCK_MONOTONIC) - told->since) / 1e6 * told->gained_ppm);
}

int clock_gettime(clockid_t clock, struct timespec *t) {
  if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE) return syscall(SYS_clock_gettime, clock, t);
  int64_t now = wrong();
  t->tv_sec = now / 1000000000, t->tv_nsec = now % 1000000000;
  return 0;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone) {
  int64_t now = wrong() / 1000;
  t->tv_sec = now / 1000000, t->tv_usec = now % 1000000;
  return 0;
}

time_t time(time_t *at) {
  time_t now = wrong() / 1000000000;
  if (at) *at = now;
  return now;
}
