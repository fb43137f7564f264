// Published figures of failures, and where they were published: the defaults of a budget.
#pragma once

#include <array>
#include <cmath>

#include "sim/base/words.hpp"
#include "sim/economics/run_model.hpp"

namespace sim {

enum class PublishedFailures : std::uint8_t { llama_3, rsc_1, rsc_2, none };
constexpr auto words_of(PublishedFailures) {
  return std::array{Word{PublishedFailures::llama_3, "llama-3"},
                    Word{PublishedFailures::rsc_1, "rsc-1"},
                    Word{PublishedFailures::rsc_2, "rsc-2"}, Word{PublishedFailures::none, "none"}};
}

// Mean time between failures of one GPU, and of what one node stands for: the node itself, its
// share of the network (NICs, cables, switches: their number grows with the nodes), and the
// software that runs on it.
struct PartFailures {
  Seconds gpu = never, node = never, network = never, software = never;
};

// Mean time between `failures` in so many days of so many parts, to the hour.
inline Seconds mean_time(double days, double parts, double failures) {
  return Seconds{3600 * std::round(days * 24 * parts / failures)};
}

// Llama 3 (Grattafiori et al. 2024, arXiv:2407.21783, section 3.3.4, table 5): 419 unexpected
// interruptions in 54 days on 16,384 H100s (2,048 nodes):
//   gpu       268 = faulty GPU 148, HBM3 72, SRAM 19, system processor 17, silent data corruption
//             6, thermal interface and sensor 6
//   node       46 = host maintenance 32, SSD 3, power supply 3, chassis 2, I/O board 2, CPU 2,
//             memory 2
//   network    42 = switch and cable 35, NIC 7
//   software   63 = bug 54, NCCL watchdog 7, dependency 2
// Research clusters of A100s, Kokolis et al. 2025 (HPCA; arXiv:2410.21680), section III: 6.50 and
// 2.34 failures per 1,000 node-days that no software of the user caused; not told apart by part.
inline PartFailures published_failures(PublishedFailures source) {
  constexpr double nodes = 2048;
  constexpr double gpus = 16384;
  switch (source) {
    case PublishedFailures::llama_3:
      return {.gpu = mean_time(54, gpus, 268),
              .node = mean_time(54, nodes, 46),
              .network = mean_time(54, nodes, 42),
              .software = mean_time(54, nodes, 63)};
    case PublishedFailures::rsc_1:
      return {.node = mean_time(1000, 1, 6.50)};
    case PublishedFailures::rsc_2:
      return {.node = mean_time(1000, 1, 2.34)};
    case PublishedFailures::none:
      break;
  }
  return {};
}

constexpr const char* source_of(PublishedFailures source) {
  switch (source) {
    case PublishedFailures::llama_3:
      return "Llama 3 report (2024), table 5: 419 interruptions in 54 days on 16,384 H100s";
    case PublishedFailures::rsc_1:
      return "Kokolis et al. 2025: 6.50 failures per 1,000 node-days, RSC-1 (A100)";
    case PublishedFailures::rsc_2:
      return "Kokolis et al. 2025: 2.34 failures per 1,000 node-days, RSC-2 (A100)";
    case PublishedFailures::none:
      break;
  }
  return "none assumed";
}

}  // namespace sim
