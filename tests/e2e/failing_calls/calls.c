// Makes one system call on the files below a folder fail: preloaded, it counts the calls that write
// them, and the one with the number FAIL_CALL (from 1) returns an error instead of doing its work.
//   FAIL_BELOW   the folder
//   FAIL_ERRNO   the error; 0: a write() takes half of what it is given, any other call works
// A call that was made to fail is named on the standard error: "failing: fsync".
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { most_descriptors = 1024 };
static int followed[most_descriptors];
static int calls;

static int is_below(const char* path) {
  const char* folder = getenv("FAIL_BELOW");
  return folder && path && strncmp(path, folder, strlen(folder)) == 0;
}
static int is_followed(int descriptor) {
  return descriptor >= 0 && descriptor < most_descriptors && followed[descriptor];
}
static int is_turn(const char* name) {
  const char* number = getenv("FAIL_CALL");
  if (!number || ++calls != atoi(number)) return 0;
  dprintf(STDERR_FILENO, "failing: %s\n", name);
  return 1;
}
static int fails(const char* name) {
  if (!is_turn(name)) return 0;
  errno = atoi(getenv("FAIL_ERRNO"));
  return errno != 0;
}

static int open_with(const char* name, const char* path, int flags, mode_t mode) {
  int (*const real)(const char*, int, ...) = (int (*)(const char*, int, ...))dlsym(RTLD_NEXT, name);
  const int writes = is_below(path) && (flags & (O_WRONLY | O_RDWR | O_DIRECTORY));
  if (writes && fails("open")) return -1;
  const int descriptor = real(path, flags, mode);
  if (descriptor >= 0 && descriptor < most_descriptors) followed[descriptor] = writes;
  return descriptor;
}
#define OPEN(name)                             \
  int name(const char* path, int flags, ...) { \
    va_list rest;                              \
    va_start(rest, flags);                     \
    const mode_t mode = va_arg(rest, mode_t);  \
    va_end(rest);                              \
    return open_with(#name, path, flags, mode); \
  }
OPEN(open)
OPEN(open64)

ssize_t write(int descriptor, const void* data, size_t size) {
  ssize_t (*const real)(int, const void*, size_t) =
      (ssize_t(*)(int, const void*, size_t))dlsym(RTLD_NEXT, "write");
  if (!is_followed(descriptor) || !is_turn("write")) return real(descriptor, data, size);
  errno = atoi(getenv("FAIL_ERRNO"));
  return errno ? -1 : real(descriptor, data, (size + 1) / 2);
}
int fsync(int descriptor) {
  int (*const real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
  return is_followed(descriptor) && fails("fsync") ? -1 : real(descriptor);
}
int close(int descriptor) {
  int (*const real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "close");
  const int failing = is_followed(descriptor) && fails("close");
  const int error = errno;
  if (is_followed(descriptor)) followed[descriptor] = 0;
  const int done = real(descriptor);
  if (!failing) return done;
  errno = error;
  return -1;
}
int rename(const char* from, const char* to) {
  int (*const real)(const char*, const char*) =
      (int (*)(const char*, const char*))dlsym(RTLD_NEXT, "rename");
  return is_below(to) && fails("rename") ? -1 : real(from, to);
}
