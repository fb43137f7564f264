// The emulator behind the fakes: kernels run when their stream does.
#include "tests/gpu/emulation/emulator.hpp"
#include "tests/gpu/fakes/fake_device.hpp"

void emulation::submit(CUstream_st* stream, std::function<void()> work) {
  fakes::enqueue_call(stream, std::move(work));
}
