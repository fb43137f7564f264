// A driver that takes CUDA 12.4 at most and has no GPU: as much of libcuda as the CUDA runtime asks
// for before it gives up.
#include <stddef.h>
#include <string.h>

enum { done = 0, no_device = 100, not_found = 500 };

int cuInit(unsigned flags) {
  (void)flags;
  return no_device;
}

int cuDriverGetVersion(int *version) {
  *version = 12040;
  return done;
}

int cuGetProcAddress_v2(const char *name, void **function, int version, unsigned long long flags,
                        void *status) {
  (void)version, (void)flags, (void)status;
  *function = NULL;
  if (strcmp(name, "cuInit") == 0) *function = (void *)cuInit;
  if (strcmp(name, "cuDriverGetVersion") == 0) *function = (void *)cuDriverGetVersion;
  if (strcmp(name, "cuGetProcAddress") == 0) *function = (void *)cuGetProcAddress_v2;
  return *function == NULL ? not_found : done;
}

int cuGetProcAddress(const char *name, void **function, int version, unsigned long long flags) {
  return cuGetProcAddress_v2(name, function, version, flags, NULL);
}
