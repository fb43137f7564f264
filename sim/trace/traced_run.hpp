// The work of a job's GPUs, as a profiler saw it: the one form that every reader of traces gives.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/ids.hpp"
#include "sim/base/units.hpp"
#include "sim/plan/plan.hpp"

namespace sim {

// Which index of a list; none where the trace does not tell.
inline constexpr std::int32_t not_told = -1;

// A kernel, a copy or a memset on one stream of the GPU. Times count from the origin of the run.
struct DeviceActivity {
  enum class What : std::uint8_t { kernel, copy, set };
  std::uint32_t name = 0;    // into TracedRun::names
  std::uint32_t stream = 0;  // as the trace numbers it
  TimePoint begin, end;
  What what = What::kernel;
  OpKind kind = OpKind::elementwise;  // by its name and its operator
  std::int32_t launch = not_told;     // into RunRank::host: the call that issued it
  std::int32_t issuer = not_told;     // into RunRank::host: the framework's operator that issued it
  std::int32_t product = not_told;    // into RunRank::products
  std::int32_t call = not_told;       // into RunRank::calls
  std::int32_t planned = not_told;    // operator of the rank's program: of our own traces alone
  std::int32_t work = not_told;   // into RunRank::works: of that operator, whose kernels share it
  std::int64_t operator_id = -1;  // the framework's number of that operator; -1: none
  Duration time() const { return end - begin; }
};

// C[m,n] = A[m,k] B[k,n], `batch` times.
struct Product {
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  bool operator==(const Product&) const = default;
};

// A collective or a message as the framework names it.
struct CollectiveCall {
  std::optional<CollectiveKind> kind{};  // empty: a message (send or receive), or not known
  Bytes bytes{};                         // the full buffer; 0: not told
  std::int32_t group = not_told;         // into TracedRun::groups
  std::uint32_t dtype = 0;               // into TracedRun::names
  std::uint32_t operation = 0;           // the same: "_allgather_base"; "": only the kernel tells
  std::int64_t in_elements = 0, out_elements = 0;  // of the rank's own buffers; 0: not told
};

// A communicator: the ranks of one process group.
struct TracedGroup {
  std::string name;             // as the framework numbers or names it
  std::string description;      // "tensor model parallel", ...; empty: not told
  int size = 0;                 // 0: not told
  std::vector<RankId> ranks{};  // ascending; empty: not told
};

// A span of a thread of the host: an operator of the framework, a call of the runtime, a mark of
// the user, or a collection of garbage.
struct HostSpan {
  enum class What : std::uint8_t { op, runtime, mark, garbage, python };
  std::uint32_t name = 0;    // into TracedRun::names
  std::uint32_t thread = 0;  // of the rank: numbered in order of appearance
  TimePoint begin, end;
  What what = What::op;
};

struct StepMark {
  std::string name;  // "ProfilerStep#7"
  TimePoint begin, end;
};

struct RunRank {
  RankId rank{};
  bool rank_told = true;                 // false: numbered by the name or the place of its file
  std::string source{};                  // the file
  std::vector<DeviceActivity> device{};  // ascending begin; those of several streams may overlap
  std::vector<HostSpan> host{};          // ascending begin
  std::vector<Product> products{};       // distinct
  std::vector<Kernel> works{};           // distinct: of operators whose shapes are known
  std::vector<CollectiveCall> calls{};
  std::vector<StepMark> steps{};  // ascending; empty: the trace marks none
};

// The device as the trace describes it; empty and 0 where it does not.
struct TracedDevice {
  std::string name{};
  Bytes memory{};
  int multiprocessors = 0;
  int warp = 0;        // threads: 32 of NVIDIA's, 64 of AMD's Instinct
  int capability = 0;  // major compute capability, of NVIDIA's
  bool hip = false;    // the host launches through HIP
};

struct TracedRun {
  std::string maker{};  // "PyTorch profiler", "Nsight Systems", "Stepcast (simulated)"
  TracedDevice device{};
  int world_size = 0;      // 0: not told
  bool on_host = false;    // no kernels of a GPU: operators of the CPU are the work
  bool one_clock = false;  // times of all ranks are of one clock; else each begins at its own first
  std::vector<std::string> names{};  // distinct; the first is ""
  std::vector<TracedGroup> groups{};
  std::vector<RunRank> ranks{};         // ascending, distinct
  std::vector<std::string> versions{};  // "CUDA 13.0"
  std::vector<std::string> notes{};     // what was left out or put right, and how much
};

// read_run reads traces of one job, one or several ranks each: of the PyTorch profiler (JSON, also
// in gzip), of `nsys export --type sqlite`, those that `--trace` writes, and records. Which it is,
// the content tells. Throws InputError, with file and line where there is one; also for two traces
// of one rank and for ranks of different runs.
TracedRun read_run(const std::vector<std::string>& paths);

}  // namespace sim
