// What tests ask the fake of NCCL about.
#pragma once

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

}  // namespace fakes
