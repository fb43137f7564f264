#include "real/cuda/cuda_backend.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <limits>
#include <optional>
#include <stdexcept>
#include <thread>

#include "real/cuda/device_check.hpp"
#include "real/cuda/first_launches.hpp"
#include "real/cuda/nccl/nccl.hpp"
#include "real/cuda/prepare.hpp"
#include "real/cuda/program_memory.hpp"
#include "real/cuda/recorder.hpp"
#include "real/cuda/step_runner.hpp"
#include "real/cuda/watchdog.hpp"
#include "real/engine/operator_name.hpp"
#include "sim/base/check.hpp"

namespace real {

namespace {

using sim::OpId;

// A sleep is late by the timer slack of Linux, 50 us (timerfd_create(2), prctl(2)
// PR_SET_TIMERSLACK): a shorter one means little.
constexpr std::chrono::microseconds shortest_sleep{50};
constexpr std::chrono::microseconds longest_sleep{500};

class CudaBackend : public Backend {
 public:
  explicit CudaBackend(const CudaSetup& setup);
  ~CudaBackend() override;
  StepOutcome step(const StepInput& input) override;
  void read(std::int64_t offset, std::span<std::byte> to) override;
  void write(std::int64_t offset, std::span<const std::byte> from) override;
  std::int64_t arena_bytes() const override { return memory_.arena().bytes(); }
  std::int64_t device_bytes_in_use() const override;

 private:
  void prepare();
  void load_kernels(const std::vector<Launch>& launches, const std::vector<Launch>& scans,
                    std::span<const Launch> packing);
  void upload(const StepInput& input);
  Launch tail() const;
  void run(StepMode mode);
  void wait_for_device();
  void beat(std::int64_t op);
  void check_place(std::int64_t offset, std::int64_t bytes) const;
  std::string name_of(std::int64_t op) const;
  StepResults results() const;
  std::int64_t first_not_finite(const StepInput& input, const StepResults& found);

  CudaSetup setup_;
  const BoundProgram& program_;
  int device_ = 0;
  ProgramMemory memory_;
  PinnedMemory upload_, results_;
  DeviceEvent done_;
  std::optional<NcclWorld> nccl_;
  std::optional<Recorder> recorder_;
  std::optional<StepRunner> runner_;
  std::optional<Gemms> gemms_;
  std::optional<Watchdog> watchdog_;
  Launch tail_;
  std::int64_t steps_ = 0;
  std::int64_t at_ = -1;  // operator that the heartbeat named last
};

CudaBackend::CudaBackend(const CudaSetup& setup)
    : setup_{setup},
      program_{*setup.program},
      device_{select_device(setup.device)},
      memory_{program_},
      upload_{memory_.layout().upload_bytes},
      results_{static_cast<std::int64_t>(sizeof(StepResults))},
      done_{DeviceEvent::Kind::order} {
  recorder_.emplace(program_, *setup.control);
  nccl_.emplace(communicators_of(program_, setup.algorithms), *setup.control,
                setup.connect_timeout);
  runner_.emplace(StepRunner::Parts{
      .program = program_, .memory = memory_.step(), .recorder = &*recorder_, .progress = [this] {
        if (watchdog_) watchdog_->progress();
      }});
  gemms_.emplace(memory_.gemm_workspace(), setup.gemm_choices);
  prepare();
  watchdog_.emplace(*nccl_, setup.timeout, [this] {
    // On the thread of the watchdog, which would else make a context on device 0.
    (void)cudaSetDevice(device_);
    return name_of(runner_->first_unfinished());
  });
}

CudaBackend::~CudaBackend() {
  // Graphs first, as NCCL waits for them; also in the watchdog's thread, if that is aborting.
  runner_->drop_graphs();
  watchdog_.reset();
  // Then the communicators: an operation that waits for a partner that is gone keeps its stream.
  if (std::uncaught_exceptions() > 0) nccl_->abort();
  nccl_.reset();
  (void)cudaDeviceSynchronize();
}

void CudaBackend::prepare() {
  const cudaStream_t stream = runner_->compute();
  memory_.fill_tables(stream);
  Preparation preparation{{.program = program_,
                           .training = setup_.training,
                           .arena = memory_.arena().at(0),
                           .frozen = memory_.frozen().at(0),
                           .memory = memory_.step(),
                           .gemms = *gemms_,
                           .nccl = *nccl_,
                           .stream = stream}};
  std::vector<Launch> launches;
  std::vector<Launch> scans;
  for (std::uint32_t op = 0; op < program_.ops.size(); ++op) {
    try {
      launches.push_back(preparation.launch_of(program_.ops[op]));
      scans.push_back(preparation.scan_of(program_.ops[op], static_cast<std::int32_t>(op)));
    } catch (const std::exception& error) {
      throw std::runtime_error(fmt::format("{}: {}", name_of(op), error.what()));
    }
  }
  tail_ = tail();
  load_kernels(launches, scans, preparation.packing());
  runner_->prepare(std::move(launches), std::move(scans));
}

// Leaves the arena, and what a step brings along, as zeros.
void CudaBackend::load_kernels(const std::vector<Launch>& launches,
                               const std::vector<Launch>& scans, std::span<const Launch> packing) {
  const cudaStream_t stream = runner_->compute();
  const auto zero = [stream](std::byte* memory, std::int64_t bytes) {
    check(cudaMemsetAsync(memory, 0, static_cast<std::size_t>(bytes), stream), "cudaMemsetAsync");
  };
  zero(memory_.scratch().at(memory_.layout().upload), memory_.layout().upload_bytes);
  zero(memory_.scratch().at(memory_.layout().results), sizeof(StepResults));
  run_first_launches({.program = program_,
                      .memory = memory_,
                      .launches = launches,
                      .scans = scans,
                      .packing = packing},
                     stream);
  tail_(stream);
  // Numbers are left: a state that nobody wrote is zero.
  zero(memory_.arena().at(0), memory_.arena().bytes());
  reset_scales(memory_.step().coded, cuda_kernels(), stream);
  check(cudaStreamSynchronize(stream), "preparing the device");
}

// A rank without parameters has no Adam and learns the norm here.
Launch CudaBackend::tail() const {
  bool has_adam = false;
  for (const BoundOp& op : program_.ops)
    has_adam = has_adam || op.action == sim::Action::adam;
  const double clip = setup_.training.clip;
  const StepMemory* memory = &memory_.step();
  std::byte* to = results_.at(0);
  return [=](cudaStream_t stream) {
    if (!has_adam) {
      cuda_kernels().finish_norm(memory->square_sum, clip, memory->norm, memory->clip_scale,
                                 stream);
    }
    check(cudaMemcpyAsync(to, memory->loss, sizeof(StepResults), cudaMemcpyDeviceToHost, stream),
          "reading the results of a step");
  };
}

void CudaBackend::upload(const StepInput& input) {
  const std::int64_t ids = memory_.layout().ids - memory_.layout().upload;
  const auto bytes = static_cast<std::int64_t>(input.tokens.size_bytes());
  SIM_CHECK(bytes == memory_.layout().upload_bytes - ids, bytes, memory_.layout().upload_bytes);
  const kernels::AdamStep adam = adam_step(setup_.training, input.step);
  std::memcpy(upload_.at(0), &adam, sizeof adam);
  std::memcpy(upload_.at(ids), input.tokens.data(), input.tokens.size_bytes());
  check(cudaMemcpyAsync(memory_.scratch().at(memory_.layout().upload), upload_.at(0),
                        static_cast<std::size_t>(memory_.layout().upload_bytes),
                        cudaMemcpyHostToDevice, runner_->compute()),
        "bringing the tokens of a step");
}

StepOutcome CudaBackend::step(const StepInput& input) {
  check(cudaSetDevice(device_), "cudaSetDevice");
  if (setup_.heartbeat != nullptr) setup_.heartbeat->begin_step(input.step);
  const auto before = std::chrono::steady_clock::now();
  upload(input);
  if (input.record) recorder_->anchor(runner_->compute());
  run(input.record ? StepMode::record : StepMode::plain);
  const StepResults found = results();
  StepOutcome outcome;
  outcome.loss = found.loss;
  outcome.gradient_norm = found.norm;
  outcome.time = std::chrono::steady_clock::now() - before;
  if (input.record) {
    outcome.time = recorder_->step_time();
    outcome.spans = recorder_->spans();
  }
  outcome.first_not_finite = first_not_finite(input, found);
  ++steps_;
  return outcome;
}

// The norm is the same on all ranks, so all run the step again; Adam has kept its hands off.
std::int64_t CudaBackend::first_not_finite(const StepInput& input, const StepResults& found) {
  if (std::isfinite(found.norm)) return -1;  // then so is the loss: kernels::require_finite()
  upload(input);
  run(StepMode::scan);
  const auto first = static_cast<std::size_t>(results().first_not_finite);
  if (first >= program_.ops.size()) return -1;
  const sim::Action action = program_.ops[first].action;
  const bool of_norm =
      action == sim::Action::gradient_norm || action == sim::Action::sum_gradient_norm;
  if (std::isfinite(found.loss) || !of_norm) return static_cast<std::int64_t>(first);
  // All gradients are finite: it was the loss that spoiled the norm.
  const auto is_loss = [](const BoundOp& op) {
    return op.model_op != nullptr && op.model_op->function == sim::Function::cross_entropy;
  };
  return std::find_if(program_.ops.begin(), program_.ops.end(), is_loss) - program_.ops.begin();
}

// The first step runs without a graph: libraries load kernels and open connections at first use,
// which a capture does not take.
void CudaBackend::run(StepMode mode) {
  watchdog_->step_begins();
  try {
    if (setup_.graphs && steps_ > 0 && mode != StepMode::scan) {
      runner_->replay(mode, tail_);
    } else {
      runner_->issue(mode, tail_);
    }
    check(cudaEventRecord(done_.get(), runner_->compute()), "cudaEventRecord");
    wait_for_device();
  } catch (const std::exception&) {
    const std::string failure = watchdog_->failure();
    runner_->drop_graphs();
    nccl_->abort();
    if (failure.empty()) throw;
    throw std::runtime_error(failure);  // the first failure; the rest is its consequence
  }
  watchdog_->step_ends();
}

// Busy where the rank has its GPU alone: a step is over when the device says so. Ranks that share a
// GPU are busy at first, for short steps, and ask about a long one less often, to leave the cores
// to NCCL's threads: at most 1/128 of the step's time late.
void CudaBackend::wait_for_device() {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  for (;;) {
    const cudaError_t state = cudaEventQuery(done_.get());
    if (state == cudaSuccess) break;
    const std::int64_t op = runner_->advance();
    if (state != cudaErrorNotReady) check(state, name_of(op));
    const std::string failure = watchdog_->failure();
    if (!failure.empty()) throw std::runtime_error(failure);
    beat(op);
    const auto pause = (Clock::now() - begin) / 128;
    if (!setup_.shares_gpu || pause < shortest_sleep) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::min<Clock::duration>(pause, longest_sleep));
    }
  }
  // Operations that were aborted end, as if they were done.
  const std::string failure = watchdog_->failure();
  if (!failure.empty()) throw std::runtime_error(failure);
}

// Between two communications the device computes: it waits for nobody then.
void CudaBackend::beat(std::int64_t op) {
  if (op != at_) {
    at_ = op;
    watchdog_->progress();
    if (setup_.heartbeat != nullptr && op >= 0) {
      setup_.heartbeat->begin(static_cast<std::uint32_t>(op));
    }
  } else if (setup_.heartbeat != nullptr && op >= 0) {
    setup_.heartbeat->waiting();
  }
}

std::string CudaBackend::name_of(std::int64_t op) const {
  const auto rank = static_cast<int>(program_.rank.value);
  if (op < 0) return fmt::format("rank {}: an operator of a step", rank);
  return fmt::format("rank {}: {}", rank, operator_name(*program_.plan, rank, op));
}

StepResults CudaBackend::results() const {
  StepResults results;
  std::memcpy(&results, results_.at(0), sizeof results);
  return results;
}

// In the arena, or in the frozen weights behind it.
void CudaBackend::check_place(std::int64_t offset, std::int64_t bytes) const {
  const std::int64_t arena = memory_.arena().bytes();
  const std::int64_t end = offset < arena ? arena : arena + memory_.frozen().bytes();
  SIM_CHECK(offset >= 0 && offset + bytes <= end, offset, bytes);
}

void CudaBackend::read(std::int64_t offset, std::span<std::byte> to) {
  check_place(offset, std::ssize(to));
  check(cudaSetDevice(device_), "cudaSetDevice");
  check(cudaMemcpy(to.data(), memory_.at(offset), to.size(), cudaMemcpyDeviceToHost), "a read");
}

void CudaBackend::write(std::int64_t offset, std::span<const std::byte> from) {
  check_place(offset, std::ssize(from));
  check(cudaSetDevice(device_), "cudaSetDevice");
  check(cudaMemcpy(memory_.at(offset), from.data(), from.size(), cudaMemcpyHostToDevice),
        "a write");
  // The copy from pageable memory may be under way still (CUDA Runtime API, "API synchronization
  // behavior"), and no stream of a step waits for the default stream.
  check(cudaDeviceSynchronize(), "a write");
}

std::int64_t CudaBackend::device_bytes_in_use() const {
  std::size_t free = 0;
  std::size_t total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return static_cast<std::int64_t>(total - free);
}

}  // namespace

bool cuda_built() {
  return true;
}

CudaFacts cuda_facts() {
  int runtime = 0;
  int driver = 0;
  (void)cudaRuntimeGetVersion(&runtime);
  (void)cudaDriverGetVersion(&driver);
  const auto cuda_version = [](int code) {
    return fmt::format("{}.{}", code / 1000, code % 1000 / 10);
  };
  CudaFacts facts{.not_built = {},
                  .toolkit = cuda_version(runtime),
                  .cublaslt = {},
                  .nccl = {},
                  .architectures = STEPCAST_CUDA_ARCHITECTURES,
                  .driver = driver > 0 ? cuda_version(driver) : std::string{},
                  .gpus = {},
                  .no_gpu = {},
                  .missing = {}};
  // Opened here for the first time (forward.hpp).
  const auto ask = [&facts](std::string& version, const auto& question) {
    try {
      version = question();
    } catch (const std::exception& error) {
      version = "not found";
      facts.missing.emplace_back(error.what());
    }
  };
  ask(facts.cublaslt, [] { return std::to_string(cublasLtGetVersion()); });
  ask(facts.nccl, [] {
    int nccl = 0;
    (void)ncclGetVersion(&nccl);
    return fmt::format("{}.{}.{}", nccl / 10'000, nccl % 10'000 / 100, nccl % 100);
  });
  int count = 0;
  const cudaError_t counted = cudaGetDeviceCount(&count);
  if (counted != cudaSuccess) {
    facts.no_gpu = cudaGetErrorString(counted);
    return facts;
  }
  if (count == 0) facts.no_gpu = "the driver shows none";
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, i) != cudaSuccess) continue;
    facts.gpus.push_back({.name = properties.name,
                          .memory_gib = static_cast<double>(properties.totalGlobalMem) / (1 << 30),
                          .capability_major = properties.major,
                          .capability_minor = properties.minor,
                          .problem = capability_problem(STEPCAST_CUDA_ARCHITECTURES, "it",
                                                        properties.major, properties.minor)});
  }
  return facts;
}

std::string cuda_summary() {
  const CudaFacts facts = cuda_facts();
  std::string text =
      fmt::format("CUDA {}, cuBLASLt {}, NCCL {}", facts.toolkit, facts.cublaslt, facts.nccl);
  if (facts.gpus.empty()) return text + fmt::format("; no GPU: {}", facts.no_gpu);
  for (std::size_t i = 0; i < facts.gpus.size(); ++i) {
    const GpuFacts& gpu = facts.gpus[i];
    text += fmt::format("; GPU {}: {}, {:.0f} GiB, compute capability {}.{}", i, gpu.name,
                        gpu.memory_gib, gpu.capability_major, gpu.capability_minor);
  }
  return text;
}

std::unique_ptr<Backend> make_cuda_backend(const CudaSetup& setup) {
  SIM_CHECK(setup.program != nullptr && setup.control != nullptr);
  SIM_CHECK(setup.program->ops.size() == setup.program->program->size());
  return std::make_unique<CudaBackend>(setup);
}

}  // namespace real
