#include "real/calibrate/cuda_kernels.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "real/calibrate/kernel_samples.hpp"
#include "sim/base/random.hpp"

namespace real {
namespace {

// Prime number of 256-byte units: layers of a model do not see the same numbers at the same places.
constexpr std::int64_t most_pattern_bytes = 65'521LL * 256;
// Kernels and events that a stream holds before it blocks the host (1024 launches, CUDA programming
// guide, "asynchronous concurrent execution"), with room for operators of several kernels.
constexpr std::size_t most_in_flight = 200;
constexpr std::size_t lead_in = 2;  // of with_lead_in()

// Two bf16 in every word, from 2^-7 to 1, all bits of the mantissa in use. Read as fp32 they are
// such numbers as well, so an arena of mixed formats holds no number that an operator cannot take.
// The numbers have either sign, as activations and gradients do: the power of a product, and so the
// clock, depends on how many bits change between its operands.
enum class Sign : std::uint8_t { either, positive };
std::vector<std::uint16_t> pattern_of(std::uint64_t seed, std::int64_t bytes, Sign sign) {
  std::vector<std::uint16_t> values(static_cast<std::size_t>(bytes) / 2);
  std::uint64_t bits = seed;
  for (std::uint16_t& value : values) {
    bits = bits * 6364136223846793005ULL + 1442695040888963407ULL;  // Knuth's MMIX generator
    const auto random = static_cast<std::uint32_t>(bits >> 40);
    const std::uint32_t exponent = 120 + random % 7;  // 2^-7 ... 2^-1
    const std::uint32_t negative = sign == Sign::either ? (random >> 15) & 1 : 0;
    value = static_cast<std::uint16_t>(negative << 15 | exponent << 7 | ((random >> 8) & 0x7f));
  }
  return values;
}

double seconds_between(const DeviceEvent& begin, const DeviceEvent& end) {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), "cudaEventElapsedTime");
  return static_cast<double>(milliseconds) * 1e-3;
}

}  // namespace

CudaKernels::CudaKernels(const BoundProgram& program, CudaBench& bench, std::uint64_t seed)
    : program_{program},
      bench_{bench},
      memory_{program},
      step_{memory_.step()},
      no_communicators_{{}, bench.transport(), std::chrono::milliseconds{0}},
      gemms_{memory_.gemm_workspace(), bench.gemm_choices()},
      launches_(program.ops.size()),
      pattern_{std::min(most_pattern_bytes, (program.arena_bytes + 255) / 256 * 256),
               "random numbers"},
      positive_{pattern_.bytes(), "random numbers"},
      positive_operands_{positive_operands(program)},
      start_{DeviceEvent::Kind::timing},
      compute_end_{DeviceEvent::Kind::timing},
      communication_end_{DeviceEvent::Kind::timing} {
  const cudaStream_t stream = bench.clock().compute();
  memory_.fill_tables(stream);
  // Kernels that run out of their order leave gradients that are not finite, and an optimizer with
  // a gate would do nothing.
  step_.gate = nullptr;
  fill_inputs(seed);
  preparation_.emplace(Preparation::Parts{.program = program,
                                          .training = training_,
                                          .arena = memory_.arena().at(0),
                                          .memory = step_,
                                          .gemms = gemms_,
                                          .nccl = no_communicators_,
                                          .stream = stream});
  for (const auto& [pattern, sign] :
       {std::pair{&pattern_, Sign::either}, std::pair{&positive_, Sign::positive}}) {
    const std::vector<std::uint16_t> values = pattern_of(seed, pattern->bytes(), sign);
    check(cudaMemcpy(pattern->at(0), values.data(), static_cast<std::size_t>(pattern->bytes()),
                     cudaMemcpyHostToDevice),
          "random numbers");
  }
  CudaKernels::refill(seed);
  bench.clock().renew_event_cost();
}

CudaKernels::~CudaKernels() {
  (void)cudaStreamSynchronize(bench_.clock().compute());
}

// Fills in a step's inputs: token ids, Adam's corrections, scalars that a step computes.
void CudaKernels::fill_inputs(std::uint64_t seed) {
  const ScratchLayout& place = memory_.layout();
  const std::int64_t ids = place.upload_bytes - (place.ids - place.upload);
  const std::int64_t count = ids / static_cast<std::int64_t>(sizeof(std::int32_t));
  const auto classes = static_cast<double>(program_.model->vocabulary);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<std::int32_t>(sim::uniform(seed, 1, i) * classes);
  const kernels::AdamStep adam{.rate = 1e-4, .correction1 = 0.5, .correction2 = 0.5};
  const StepResults results{.loss = 0, .square_sum = 1, .norm = 1, .clip_scale = 1};
  const auto upload = [&](std::int64_t offset, const void* from, std::size_t bytes) {
    check(cudaMemcpy(memory_.scratch().at(offset), from, bytes, cudaMemcpyHostToDevice),
          "inputs of a measurement");
  };
  upload(place.upload, &adam, sizeof adam);
  upload(place.ids, tokens.data(), tokens.size() * sizeof(std::int32_t));
  upload(place.results, &results, sizeof results);
}

void CudaKernels::fill(const Operand& place, const DeviceMemory& pattern, std::uint64_t seed) {
  const std::int64_t units = pattern.bytes() / 256;
  std::int64_t from = static_cast<std::int64_t>(seed % static_cast<std::uint64_t>(units)) * 256;
  for (std::int64_t at = 0; at < place.bytes;) {
    const std::int64_t bytes = std::min(pattern.bytes() - from, place.bytes - at);
    copy_on_device(memory_.arena().at(place.offset + at), pattern.at(from), bytes,
                   bench_.clock().compute());
    at += bytes;
    from = 0;
  }
}

void CudaKernels::refill(std::uint64_t seed) {
  fill({.offset = 0, .bytes = memory_.arena().bytes()}, pattern_, seed);
  for (const Operand& operand : positive_operands_)
    fill(operand, positive_, seed);
  check(cudaStreamSynchronize(bench_.clock().compute()), "new data for a measurement");
}

const Launch& CudaKernels::launch(std::uint32_t op) {
  Launch& place = launches_[op];
  if (!place) place = preparation_->launch_of(program_.ops[op]);
  return place;
}

// The choice of algorithms for products is measured, too, but not here. Libraries load a kernel
// when it is called first.
void CudaKernels::prepare(std::span<const std::uint32_t> ops) {
  bool fresh = false;
  for (const std::uint32_t op : ops) {
    if (launches_[op]) continue;
    launch(op)(bench_.clock().compute());
    fresh = true;
  }
  if (fresh) check(cudaStreamSynchronize(bench_.clock().compute()), "the first run of kernels");
}

std::vector<double> CudaKernels::run(std::span<const std::uint32_t> ops) {
  prepare(ops);
  std::vector<double> seconds;
  CudaClock& clock = bench_.clock();
  while (seconds.size() < ops.size()) {
    // Behind those before it, which are run again where the sequence was cut.
    const std::size_t first = seconds.size() - std::min(seconds.size(), lead_in);
    const std::size_t count = std::min(ops.size() - first, most_in_flight);
    const std::vector<double> times =
        clock.time_each(count, [&](std::size_t i) { launch(ops[first + i])(clock.compute()); });
    const auto fresh = static_cast<std::ptrdiff_t>(seconds.size() - first);
    seconds.insert(seconds.end(), times.begin() + fresh, times.end());
  }
  return seconds;
}

double CudaKernels::issue_cost(std::span<const std::uint32_t> ops) {
  const std::span<const std::uint32_t> some = ops.first(std::min(ops.size(), most_in_flight));
  prepare(some);
  CudaClock& clock = bench_.clock();
  return clock.issue_cost(some.size(), [&](std::size_t i) { launch(some[i])(clock.compute()); });
}

sim::MeasuredGaps CudaKernels::gaps(std::span<const std::uint32_t> ops) {
  const std::span<const std::uint32_t> some = ops.first(std::min(ops.size(), most_in_flight));
  prepare(some);
  CudaClock& clock = bench_.clock();
  return clock.gaps(some.size(), [&](std::size_t i) { launch(some[i])(clock.compute()); });
}

// Both streams wait for one event, as they do in a step.
Beside CudaKernels::run_beside(std::uint32_t op, int repeats, const CollectiveCase& with) {
  prepare(std::span{&op, 1});
  bench_.prepare(with);
  const cudaStream_t compute = bench_.clock().compute();
  const cudaStream_t communication = bench_.clock().communication();
  const auto record = [](const DeviceEvent& event, cudaStream_t stream) {
    check(cudaEventRecord(event.get(), stream), "cudaEventRecord");
  };
  record(start_, compute);
  check(cudaStreamWaitEvent(communication, start_.get(), 0), "cudaStreamWaitEvent");
  bench_.start(with);
  record(communication_end_, communication);
  for (int i = 0; i < repeats; ++i)
    launch(op)(compute);
  record(compute_end_, compute);
  check(cudaEventSynchronize(compute_end_.get()), "kernels beside a collective");
  check(cudaEventSynchronize(communication_end_.get()), "a collective beside kernels");
  Beside times;
  times.kernels = seconds_between(start_, compute_end_);
  times.collective = seconds_between(start_, communication_end_);
  times.together = std::max(times.kernels, times.collective);
  return times;
}

}  // namespace real
