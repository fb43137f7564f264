// The host backend under measurement: its own kernels on its own arena, its own collectives over
// the transport of the run.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <string>

#include "real/calibrate/bench.hpp"
#include "real/calibrate/core_clock.hpp"
#include "real/calibrate/kernel_samples.hpp"
#include "real/calibrate/machine_facts.hpp"
#include "real/host/host_program.hpp"
#include "real/net/collectives.hpp"
#include "sim/base/check.hpp"
#include "sim/base/random.hpp"

namespace real {
namespace {

constexpr std::uint32_t collective_channel_of_bench = 0x61000000;
constexpr std::uint32_t message_channel_of_bench = 0x62000000;

class HostKernels : public KernelBench {
 public:
  HostKernels(const BoundProgram& program, Bench& bench, std::uint64_t seed, bool share_cores)
      : bench_{bench},
        share_cores_{share_cores},
        host_{program, training_},
        positive_operands_{positive_operands(program)} {
    const sim::Layout& layout = program.plan->layout;
    const std::int64_t count =
        layout.micro_batches() * layout.micro_batch * (layout.sequence_length + 1);
    tokens_.resize(static_cast<std::size_t>(count));
    const double classes = static_cast<double>(program.model->vocabulary);
    for (std::size_t i = 0; i < tokens_.size(); ++i)
      tokens_[i] = static_cast<std::int32_t>(sim::uniform(seed, 1, i) * classes);
    host_.begin_step({.step = 0, .tokens = tokens_});
    HostKernels::refill(seed);
  }

  void refill(std::uint64_t seed) override {
    std::uint64_t bits = seed;
    for (float& value : floats({.offset = 0, .bytes = host_.arena().size()})) {
      bits = bits * 6364136223846793005ULL + 1442695040888963407ULL;  // Knuth's MMIX generator
      value = 0.01F + 0.5F * static_cast<float>(bits >> 40) * 0x1.0p-24F;
      if ((bits >> 39 & 1) != 0) value = -value;
    }
    for (const Operand& operand : positive_operands_)
      for (float& value : floats(operand))
        value = std::abs(value);
  }

  std::vector<double> run(std::span<const std::uint32_t> ops) override {
    std::vector<double> seconds;
    seconds.reserve(ops.size());
    if (share_cores_) return run_in_turns(ops);
    for (const std::uint32_t op : ops) {
      CoreTimer timer;
      timer.start();
      run_one(op);
      seconds.push_back(timer.stop());
    }
    return seconds;
  }

  Beside run_beside(std::uint32_t op, int repeats, const CollectiveCase& with) override;

 private:
  // From the end of one to the end of the next, without a system call, at which others would take
  // their turn: turns are a part of these times.
  std::vector<double> run_in_turns(std::span<const std::uint32_t> ops) {
    std::vector<double> seconds;
    double before = wall_now();
    for (const std::uint32_t op : ops) {
      run_one(op);
      const double after = wall_now();
      seconds.push_back(after - before);
      before = after;
    }
    return seconds;
  }
  void run_one(std::uint32_t index) {
    *host_.memory().square_sum = 1;  // Adam leaves out a step whose norm is not finite
    host_.run(index);
  }

  Bench& bench_;
  bool share_cores_;
  sim::Training training_;
  std::span<float> floats(const Operand& place) {
    const std::span<std::byte> all = host_.arena().bytes(place.offset, place.bytes);
    return {reinterpret_cast<float*>(all.data()), all.size() / sizeof(float)};
  }

  HostProgram host_;
  std::vector<Operand> positive_operands_;
  std::vector<std::int32_t> tokens_;
};

class HostBench : public Bench {
 public:
  explicit HostBench(Transport& transport)
      : transport_{transport},
        share_cores_{ranks_share_cores(transport.size())},
        reference_{make_host_reference(share_cores_)} {}

  Reference& reference() override { return *reference_; }

  std::unique_ptr<KernelBench> load(const BoundProgram& program, std::uint64_t seed) override {
    return std::make_unique<HostKernels>(program, *this, seed, share_cores_);
  }

  Interval run(const CollectiveCase& collective, int repeats) override {
    prepare(collective);
    Interval interval{.begin = wall_now(), .end = 0};
    for (int i = 0; i < repeats; ++i)
      run_once(collective);
    interval.end = wall_now();
    return interval;
  }

  int calls_per_sample(std::int64_t) const override { return 1; }

  double copy(sim::MeasuredCopy::Way way, std::int64_t bytes) override {
    SIM_CHECK(way == sim::MeasuredCopy::Way::device_to_device);
    const auto count = static_cast<std::size_t>(bytes);
    if (input_.size() < count) input_.resize(count);
    if (output_.size() < count) output_.resize(count);
    const double begin = wall_now();
    std::memcpy(output_.data(), input_.data(), count);
    return wall_now() - begin;
  }

  std::vector<sim::MeasuredCopy::Way> copies() const override {
    return {sim::MeasuredCopy::Way::device_to_device};
  }

  // A host runs what it issues.
  std::optional<double> issue_cost(KernelBench&, std::span<const std::uint32_t>) override {
    return std::nullopt;
  }

  void describe(sim::MeasuredMachine& machine) override;

  // For HostKernels::run_beside(): starts it; what is returned moves it on, and says whether it is
  // through.
  std::function<bool()> begin(const CollectiveCase& collective) {
    if (collective.message) {
      const auto message = std::make_shared<Pending>(transport_, start_message(collective));
      return [message] { return message->done(); };
    }
    const std::shared_ptr<CollectiveRun> run = start(collective);
    return [run] { return run->progress(); };
  }
  void idle() { transport_.idle(); }
  void finish(CollectiveRun& run) {
    while (!run.progress())
      transport_.idle();
  }
  void prepare(const CollectiveCase& collective) {
    const auto bytes = static_cast<std::size_t>(collective.bytes);
    if (input_.size() < bytes) input_.resize(bytes);
    if (output_.size() < bytes) output_.resize(bytes);
  }

 private:
  CollectiveCall call_of(const CollectiveCase& collective);
  std::unique_ptr<CollectiveRun> start(const CollectiveCase& collective) {
    return start_collective(transport_, call_of(collective));
  }
  Ticket start_message(const CollectiveCase& message);
  void run_once(const CollectiveCase& collective);

  Transport& transport_;
  bool share_cores_;
  std::unique_ptr<Reference> reference_;
  std::vector<std::byte> input_, output_;
};

CollectiveCall HostBench::call_of(const CollectiveCase& collective) {
  const auto bytes = static_cast<std::size_t>(collective.bytes);
  const std::size_t part = bytes / collective.members.size();
  CollectiveCall call{.kind = collective.kind,
                      .algorithm = collective.kind == sim::CollectiveKind::barrier ||
                                           collective.algorithm == AlgorithmChoice::tree
                                       ? CollectiveAlgorithm::tree
                                       : CollectiveAlgorithm::ring,
                      .members = collective.members,
                      .channel = collective_channel_of_bench};
  switch (collective.kind) {
    case sim::CollectiveKind::all_gather:
      call.input = std::span{input_}.first(part);
      call.output = std::span{output_}.first(part * collective.members.size());
      break;
    case sim::CollectiveKind::reduce_scatter:
      call.input = std::span{input_}.first(part * collective.members.size());
      call.output = std::span{output_}.first(part);
      break;
    case sim::CollectiveKind::barrier:
      break;
    case sim::CollectiveKind::all_to_all:
      call.input = std::span{input_}.first(bytes);
      call.output = std::span{output_}.first(bytes);
      break;
    default:  // in place
      call.output = std::span{output_}.first(bytes);
  }
  return call;
}

void HostBench::run_once(const CollectiveCase& collective) {
  if (!collective.message) {
    const std::unique_ptr<CollectiveRun> run = start(collective);
    return finish(*run);
  }
  wait(transport_, start_message(collective));
}

Ticket HostBench::start_message(const CollectiveCase& message) {
  const auto bytes = static_cast<std::size_t>(message.bytes);
  SIM_CHECK(message.members.size() == 2, message.members.size());
  const bool sends = message.members[0] == transport_.rank();
  return sends ? transport_.start_send(message.members[1], message_channel_of_bench,
                                       std::span{input_}.first(bytes))
               : transport_.start_receive(message.members[0], message_channel_of_bench,
                                          std::span{output_}.first(bytes));
}

// As the backend's loop: communication moves on between kernels.
Beside HostKernels::run_beside(std::uint32_t op, int repeats, const CollectiveCase& with) {
  auto& bench = static_cast<HostBench&>(bench_);
  bench.prepare(with);
  Beside times;
  const double begin = wall_now();
  const std::function<bool()> progress = bench.begin(with);
  bool done = progress();
  if (done) times.collective = wall_now() - begin;
  for (int i = 0; i < repeats; ++i) {
    run_one(op);
    times.kernels = wall_now() - begin;
    if (done) continue;
    done = progress();
    if (done) times.collective = wall_now() - begin;
  }
  if (!done) {
    while (!progress())
      bench.idle();
    times.collective = wall_now() - begin;
  }
  times.together = wall_now() - begin;
  return times;
}

void HostBench::describe(sim::MeasuredMachine& machine) {
  machine.device = processor_name();
  machine.versions.push_back(fmt::format("GCC {}.{}", __GNUC__, __GNUC_MINOR__));
  std::ifstream memory{"/proc/meminfo"};
  std::string key;
  std::int64_t kib = 0;
  if (memory >> key >> kib && key == "MemTotal:")
    machine.memory = sim::Bytes{kib * 1024 / transport_.size()};
}

}  // namespace

std::unique_ptr<Bench> make_host_bench(Transport& transport) {
  return std::make_unique<HostBench>(transport);
}

}  // namespace real
