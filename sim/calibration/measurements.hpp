// Measurements of a machine, before anything is fitted: plain numbers. The readers of logs and
// traces fill them in (nccl_tests.hpp, kineto.hpp), and so do the benchmarks of real/calibrate.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/cost/kernel_cost.hpp"
#include "sim/program/program.hpp"

namespace sim {

// KernelUse: what a measured time is for. list: it is fitted, and stands in measured_kernels, too.
// fit: parameters are fitted to it. held_out: of a kind that is fitted; no fit sees it. check: of a
// kind that no parameter stands for.
enum class KernelUse : std::uint8_t { list, fit, held_out, check };

// One kernel, median of many. Work is what the plan counts: `bytes` of memory-bound kernels and
// shapes of the rest are those of the program that will be forecast.
struct MeasuredKernel {
  Kernel kernel{};
  Duration time{};         // on the device, without the host's cost to issue it
  Load load = Load::step;  // step: operands in device memory, sustained clock; loop: repeated
  int sms = 0;             // that the process could use; 0: all of the device
  int samples = 1;
  std::string source{};  // file or command: printed with the fit
  KernelUse use = KernelUse::list;
  std::string name{};  // of its kind in a file of rows: "sdpa_flash_fwd"; empty: that of its OpKind
};

// One call of one size on one group. `bytes` is the full buffer (NCCL's S), as in Collective.
struct MeasuredCollective {
  std::string collective{};  // word of CollectiveKind, or "send_receive"
  int ranks = 0;
  int nodes = 1;
  Bytes bytes{};
  Duration time{};          // from the arrival of the last member to the end
  std::string algorithm{};  // word of Algorithm; empty: the library's own choice
  int samples = 1;
  std::string source{};
};

struct MeasuredCopy {
  enum class Way : std::uint8_t { host_to_device, device_to_host, device_to_device };
  Way way = Way::host_to_device;
  Bytes bytes{};
  Duration time{};
};

// The same kernel (or loop of kernels) alone, and started with a collective on every rank.
struct MeasuredInterference {
  Kernel kernel{};
  int repeats = 1;                  // of the kernel, back to back
  Duration kernels_alone{};         // all repeats
  Duration kernels_beside{};        // all repeats, while the collective is under way
  MeasuredCollective collective{};  // `time`: alone
  Duration collective_beside{};
  Duration together{};  // from the start of both to the end of the later one
};

// Device memory that is gone before the first tensor.
struct MeasuredReserve {
  Bytes context{};    // CUDA context; a process's own memory on a host
  Bytes nccl{};       // communicators and their buffers
  Bytes libraries{};  // workspaces
};

// The reference that ran between the measurements (real/calibrate/reference.hpp): what their times
// refer to. Not a part of any forecast: it tells runs on this machine, later, in which phase it is.
struct MeasuredReference {
  Duration product{}, copy{};  // one GEMM, one copy: medians while calibrating
  Duration whole{};            // both, of an undisturbed rank; of ranks that share cores, in turns
  int samples = 0;
  double median_slowdown = 1, worst_slowdown = 1;  // of the samples, with what others took
};

// Seconds between two kernels in a row, beyond their own times; below 0 where the end of one and
// the begin of the next overlap.
struct MeasuredGaps {
  double issued = 0;    // one by one, the host ahead
  double replayed = 0;  // by a CUDA graph
};

struct MeasuredMachine {
  std::string host{};                   // name of the machine
  std::string device{};                 // as the driver or /proc/cpuinfo names it
  std::string maker{};                  // "NVIDIA" or "AMD", where a trace shows it
  int capability = 0;                   // major compute capability of NVIDIA's; 0: not told
  std::string date{};                   // ISO 8601
  std::vector<std::string> versions{};  // "CUDA 13.0", "driver 580.82", "Eigen 3.4.0"
  std::vector<MeasuredKernel> kernels{};
  std::vector<MeasuredCollective> collectives{};
  std::vector<MeasuredCopy> copies{};
  std::vector<MeasuredInterference> interference{};
  std::optional<Duration> host_issue{};  // host time to issue one kernel, eager
  // Figures that the device itself reports; absent: the base device file's.
  std::optional<int> sms{};
  std::optional<Bytes> memory{};
  std::optional<MeasuredReserve> reserved{};
  std::optional<MeasuredReference> reference{};
  std::optional<MeasuredGaps> gaps{};
  std::vector<std::string> conditions{};  // of the device, a line per part: clock, power, heat
};

}  // namespace sim
