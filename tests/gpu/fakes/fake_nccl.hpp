// Questions of tests to the fake of NCCL.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fakes {

struct CommunicatorRecord {
  int ranks = 0;
  int rank = 0;
  std::string algorithm;  // NCCL_ALGO when it was made
};
std::vector<CommunicatorRecord> communicators_made();
void forget_communicators();

// A call that goes wrong on the rank of a device: it fails, or hangs until the rank aborts.
struct NcclFault {
  int device = -1;  // -1: none
  enum class During : std::uint8_t { first_use, capture } during = During::first_use;
  bool hangs = false;
};
void set_nccl_fault(const NcclFault& fault);

// nccl_misuse() is what the engine did that NCCL does not take, once; empty: nothing.
std::string nccl_misuse();

}  // namespace fakes
